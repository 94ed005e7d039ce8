"""The work of code in `service/text`, counted in steps instead of seconds."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import service.text

_FOLDER = str(Path(service.text.__file__).parent)


def steps_of(work: Callable[[], object]) -> int:
    """Count the lines of service/text that run, each turn of a loop by itself."""
    steps = 0

    def trace_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return trace_line

    def trace_call(frame: FrameType, event: str, argument: Any) -> Any:
        return trace_line if frame.f_code.co_filename.startswith(_FOLDER) else None

    before = sys.gettrace()
    sys.settrace(trace_call)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps
