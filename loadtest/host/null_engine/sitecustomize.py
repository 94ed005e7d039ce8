"""Engines that compute nothing, for servers whose PYTHONPATH has this folder: Python imports it first.

The table of modes gets another runner for `int8` on a CPU.
"""

import sys

if "service.engine" in sys.orig_argv:
    from loadtest.host.null_runner import build_null_runner
    from service.engine.modes import MODES

    MODES["int8"].runners["cpu"] = build_null_runner
