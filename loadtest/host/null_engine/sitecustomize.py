"""Engines that compute nothing, for servers whose PYTHONPATH has this folder: Python imports it first.

The table of modes gets another runner for `int8` on a CPU. Nothing happens without the variable.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final

VARIABLE: Final = "HOST_BENCHMARK"
_MODULE: Final = "service.engine.modes"


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _NullModes(spec.loader)
        return spec


class _NullModes(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        from loadtest.host.null_runner import build_null_runner

        module.MODES["int8"].runners["cpu"] = build_null_runner


if VARIABLE in os.environ:
    sys.meta_path.insert(0, _Finder())
