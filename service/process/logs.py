"""Logs on standard error, never with a user's text: lines for people at a terminal, else a JSON object per line."""

import logging
import sys
from typing import Final, Literal

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

Style = Literal["auto", "text", "json"]
"""auto is text on a terminal, else json."""

# Uvicorn's copy of the message for colour terminals is among them.
_RESERVED: Final = [*RESERVED_ATTRS, "color_message", "message", "asctime"]
_START_OF_LINE: Final = "\r\x1b[K"
_COLORS: Final = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}


class _TextFormatter(logging.Formatter):
    """Writes a record for people: time, severity if it is one, message, and the values that belong to it."""

    def __init__(self, *, at_terminal: bool) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._at_terminal = at_terminal

    def formatMessage(self, record: logging.LogRecord) -> str:
        values = [f"{name.replace('_', ' ')} {value}" for name, value in vars(record).items() if name not in _RESERVED]
        severity = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        line = f"{record.asctime} {severity}{record.message}{': ' if values else ''}{', '.join(values)}"
        if not self._at_terminal:
            return line
        color = _COLORS.get(record.levelno, "")
        # Another process may show that it works, in the same line.
        return f"{_START_OF_LINE}{color}{line}{color and chr(27) + '[0m'}"


def configure(level: str, style: str = "auto") -> None:
    """Write all records, including uvicorn's, to standard error in one `Style`."""
    at_terminal = sys.stderr.isatty()
    is_text = style == "text" or (style == "auto" and at_terminal)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_TextFormatter(at_terminal=at_terminal) if is_text else _json_formatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # At debug level, sse_starlette logs the texts that it sends.
    logging.getLogger("sse_starlette").setLevel(max(logging.INFO, logging.root.level))
    if is_text:
        # Its "Press CTRL+C to quit" would stand before the address can be used.
        logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.root.level))


def _json_formatter() -> logging.Formatter:
    return JsonFormatter(
        "%(asctime)s %(levelname)s %(name)s %(message)s",
        rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        reserved_attrs=[*RESERVED_ATTRS, "color_message"],
    )
