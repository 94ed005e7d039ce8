"""A server whose directory of models is full of checkpoints that were made to harm."""

import json
import shutil
import signal
import time
from pathlib import Path

import httpx
import pytest

from model.tokenizer import Tokenizer
from service.settings import EMBEDDED_MODEL
from tests.system.caches import imported, make_cache
from tests.system.conftest import Server, run_server

pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")

from tests.model.formats.builders import m2m100
from tests.model.formats.hostile import EXECUTED, MAX_BYTES, make

_KINDS = (
    "directory, index names a device",
    "directory, weights are a FIFO",
    "directory, pickle executes",
    "package, a bomb",
    "package, a parent's file",
    "other, a FIFO",
)
_EACH_SECONDS = 20


def test_each_is_refused_with_its_reason_and_the_others_are_served(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """One of each way to harm; the importer's own test tries all."""
    valid, models, cache = tmp_path / "valid", tmp_path / "models", make_cache(tmp_path / "cache")
    valid.mkdir()
    m2m100(valid, tokenizer)
    shutil.copytree(EMBEDDED_MODEL, models / "en-fr")
    names = {
        f"{number:03}.argosmodel" if "package" in kind else f"{number:03}": kind for number, kind in enumerate(_KINDS)
    }
    for name, kind in names.items():
        make(kind, valid, models / name)
    with run_server(
        tmp_path / "log",
        "--models",
        str(models),
        ready=False,
        environment={"XDG_CACHE_HOME": str(cache)},
        constants={"model.source_files.DEFAULT_MAX_MEGABYTES": MAX_BYTES // 1_000_000},
    ) as server:
        states = _when_tried(server, len(_KINDS))
        served = states.pop("en-fr")
        assert served["state"] == "ready"
        for name, kind in names.items():
            if "other" in kind and name not in states:
                continue  # no directory and no package: not a model at all, which the log says
            assert states[name]["state"] == "failed", kind
            assert len(states[name]["reason"].splitlines()) == 1, kind
        answer = httpx.post(f"{server.url}/translate", json={"q": "I see a cat.", "source": "en", "target": "fr"})
        assert answer.json() == {"translatedText": "Je vois un chat."}
        assert not (models / EXECUTED).exists()
        assert imported(cache) == []
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(40) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def _when_tried(server: Server, count: int) -> dict[str, dict[str, str]]:
    """Return the states of all models by name, once none is loading."""
    deadline = time.monotonic() + 60 + _EACH_SECONDS * count
    while True:
        assert time.monotonic() < deadline
        assert server.process.poll() is None, server.log.read_text()
        try:
            states = {each["name"]: each for each in httpx.get(f"{server.url}/models", timeout=10).json()}
        except (httpx.TransportError, json.JSONDecodeError):
            states = {}
        if states and all(each["state"] != "loading" for each in states.values()):
            return states
        time.sleep(0.2)
