"""Servers of public models: downloads before readiness, other models meanwhile, reasons, a second start offline."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from model.tokenizer import Tokenizer
from service.settings import EMBEDDED_MODEL
from tests.service.hub.servers import COMMIT, Answer, FileServer, file_server, publish_repository
from tests.system.caches import make_cache
from tests.system.conftest import START_SECONDS, Server, StartServer
from tests.system.models import write_model
from tests.waiting import wait_for

FRENCH = "acme/en-fr"
GERMAN = "acme/de-en"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tokenizer: Tokenizer) -> Iterator[FileServer]:
    """Hugging Face's hub with the embedded model and a small one of German, and an empty cache."""
    write_model(tmp_path / "german", tokenizer, "de-en")
    monkeypatch.setenv("XDG_CACHE_HOME", str(make_cache(tmp_path / "cache")))
    for name in ("HF_HOME", "HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with file_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        for name, directory in ((FRENCH, EMBEDDED_MODEL), (GERMAN, tmp_path / "german")):
            publish_repository(server, name, {path.name: path.read_bytes() for path in directory.iterdir()})
        yield server


def _weights(hub: FileServer, name: str) -> Answer:
    return hub.answers[f"/{name}/resolve/{COMMIT}/model.safetensors"]


def _translate(server: Server, source: str, target: str) -> httpx.Response:
    body = {"q": "The cat sat on the mat.", "source": source, "target": target}
    return httpx.post(f"{server.url}/translate", json=body, timeout=60.0)


def _wait_for_readiness(server: Server, reason: str) -> None:
    """Wait until the server is not ready for this reason."""

    def is_so() -> bool:
        try:
            answer = httpx.get(f"{server.url}/readyz")
        except httpx.TransportError:
            return False
        return bool(re.search(reason, answer.json().get("error", "")))

    wait_for(is_so)


def _models(server: Server) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in httpx.get(f"{server.url}/models").json()}


def test_a_name_is_downloaded_before_readiness_and_needs_no_network_later(
    hub: FileServer, start_server: StartServer, server: Server
) -> None:
    gate = _weights(hub, FRENCH).gate = threading.Event()
    with start_server("--model", FRENCH, ready=False) as started:
        _wait_for_readiness(started, rf"^downloading hf:{FRENCH}: [0-9]+ %$")
        assert httpx.get(f"{started.url}/livez").status_code == 200
        assert _translate(started, "en", "fr").status_code == 503
        assert _models(started)[f"hf:{FRENCH}"]["state"] == "downloading"
        assert started.metric("dragoman_models", 'state="downloading"') == 1
        wait_for(lambda: 0.0 < started.metric("dragoman_model_download_ratio", f"hf:{FRENCH}") < 1.0)
        gate.set()
        started.wait_until_ready()
        expected = _translate(server, "en", "fr").json()
        assert _translate(started, "en", "fr").json() == expected
        model = _models(started)[f"hf:{FRENCH}"]
        assert model["origin"]["revision"] == COMMIT
        assert model["origin"]["licence"] == "cc-by-4.0"
        assert model["origin"]["sha256"].keys() >= {"config.json", "model.safetensors"}
    hub.requests.clear()
    with start_server("--model", f"hf:{FRENCH}", "--offline") as started:
        assert _translate(started, "en", "fr").json() == expected
    assert not hub.requests


def test_other_models_serve_during_a_download_and_beside_one_that_cannot_be_had(
    hub: FileServer, start_server: StartServer, tmp_path: Path
) -> None:
    gate = _weights(hub, GERMAN).gate = threading.Event()
    listed = tmp_path / "models.txt"
    listed.write_text(f"# two that are there, and one that nobody has\n{FRENCH}\nhf:{GERMAN}\n\nacme/none\n")
    with start_server("--models", str(listed), ready=False) as server:
        wait_for(lambda: _translates(server))
        assert httpx.get(f"{server.url}/readyz").status_code == 503
        answer = _translate(server, "de", "fr")
        assert answer.status_code == 503
        assert f"downloading hf:{GERMAN}" in answer.json()["error"]
        gate.set()
        while httpx.get(f"{server.url}/readyz").status_code != 200:
            assert _translate(server, "en", "fr").status_code == 200
        assert _translate(server, "de", "fr").json()["pivot"] == "en"
        none = _models(server)["hf:acme/none"]
        assert none["state"] == "failed"
        assert "has no such model" in none["reason"]
        assert _translate(server, "xx", "fr").status_code == 400


def _translates(server: Server) -> bool:
    try:
        return _translate(server, "en", "fr").status_code == 200
    except httpx.TransportError:
        return False


def test_a_server_whose_only_model_cannot_be_had_says_why(hub: FileServer, start_server: StartServer) -> None:
    with start_server("--model", "acme/none", ready=False) as server:
        assert server.process.wait(START_SECONDS) == 2
        last = server.log.read_text().splitlines()[-1]
    assert re.match(r"dragoman: hf:acme/none: 127\.0\.0\.1:\d+ has no such model, or it is private", last)
