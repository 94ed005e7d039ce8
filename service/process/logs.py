"""Structured logs: one JSON object per line on standard error, never with a user's text."""

import logging
import sys

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter


def configure(level: str) -> None:
    """Write all records, including uvicorn's, to standard error in one style."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonFormatter(
        "%(asctime)s %(levelname)s %(name)s %(message)s",
        rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        # Uvicorn's copy of the message for colour terminals.
        reserved_attrs=[*RESERVED_ATTRS, "color_message"],
    )
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # At debug level, sse_starlette logs the texts that it sends.
    logging.getLogger("sse_starlette").setLevel(max(logging.INFO, logging.root.level))
