"""Logs: for people at a terminal, for programs elsewhere."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from service.process import logs


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    root, uvicorn = logging.root, logging.getLogger("uvicorn")
    before = root.handlers[:], root.level, uvicorn.level
    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(logging.LogRecord)  # a test that imported Ray leaves one that adds a field
    yield
    logging.setLogRecordFactory(factory)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    uvicorn.setLevel(before[2])


def _logged(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, style: str) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure("info", style)
    logging.getLogger("tests").info("ready", extra={"open": "http://127.0.0.1:5000", "first_token": 3})
    logging.getLogger("tests").error("engine process ended")
    logging.getLogger("tests").debug("no detail")
    return stream.getvalue()


@pytest.mark.parametrize(("kind", "style"), [(_Terminal, "auto"), (_Terminal, "text"), (io.StringIO, "text")])
def test_people_read_lines(kind: type[io.StringIO], style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_terminal = kind is _Terminal
    ready, error = _logged(monkeypatch, kind(), style).strip().split("\n")
    assert " ready: open http://127.0.0.1:5000, first token 3" in ready
    assert " error: engine process ended" in error
    # Elsewhere no sequences of a terminal get into a file.
    assert ("\x1b" in ready, "\x1b[31m" in error) == (is_terminal, is_terminal)


@pytest.mark.parametrize(("kind", "style"), [(io.StringIO, "auto"), (_Terminal, "json")])
def test_programs_read_json(kind: type[io.StringIO], style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, error = map(json.loads, _logged(monkeypatch, kind(), style).splitlines())
    assert ready.pop("time")
    assert ready == {
        "level": "INFO",
        "logger": "tests",
        "message": "ready",
        "open": "http://127.0.0.1:5000",
        "first_token": 3,
    }
    assert (error["level"], error["message"]) == ("ERROR", "engine process ended")
