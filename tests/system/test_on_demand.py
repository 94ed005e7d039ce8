"""Servers that offer a whole index: the first request for a model downloads and loads it."""

import io
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from model.config import ModelConfig
from model.tokenizer import Tokenizer
from tests.conftest import random_model
from tests.service.hub.servers import FileServer, argos_entry, file_server
from tests.system.caches import make_cache
from tests.system.conftest import POLL, START_SECONDS, Server, StartServer

pytest.importorskip("ctranslate2", reason="pip install 'dragoman[load]'")

from loadtest.bench.ctranslate2_model import specification
from tests.model.formats.conftest import pieces_of
from tests.waiting import wait_for

BODY = {"q": "The cat sat.", "max_new_tokens": 8}


def _package(directory: Path, tokenizer: Tokenizer, source: str, target: str) -> bytes:
    """Return an Argos package of a random model."""
    size = len(tokenizer)
    config = ModelConfig(vocab_size=size, d_model=32, ffn_dim=64, num_heads=4, encoder_layers=1, decoder_layers=1)
    spec = specification(random_model(config), pieces_of(tokenizer))
    spec.validate()
    spec.optimize(quantization="int8")
    place = directory / f"{source}_{target}" / "model"
    place.mkdir(parents=True)
    spec.save(str(place))
    metadata = {"from_code": source, "to_code": target, "package_version": "1.0"}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        root = f"translate-{source}_{target}-1_0"
        for path in place.iterdir():
            archive.write(path, f"{root}/model/{path.name}")
        archive.writestr(f"{root}/sentencepiece.model", tokenizer.files["tokenizer.model"])
        archive.writestr(f"{root}/metadata.json", json.dumps(metadata))
    return packed.getvalue()


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tokenizer: Tokenizer) -> Iterator[FileServer]:
    """Argos' index with three models, one of which is gone, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(make_cache(tmp_path / "cache")))
    with file_server() as server:
        for source, target in (("de", "en"), ("en", "fr")):
            server.put(f"/{source}-{target}", _package(tmp_path / "packages", tokenizer, source, target))
        server.put("/en-es", b"", status=404)
        pairs = ("de", "en"), ("en", "fr"), ("en", "es")
        entries = [argos_entry(*pair, "1.0", f"{server.url}/{'-'.join(pair)}") for pair in pairs]
        monkeypatch.setenv("DRAGOMAN_ARGOS_INDEX", server.put_json("/index.json", entries))
        yield server


def _languages(server: Server) -> dict[str, dict[str, Any]]:
    return {each["code"]: each for each in httpx.get(f"{server.url}/languages").json()}


def _states(server: Server) -> dict[str, str]:
    return {each["name"]: each["state"] for each in httpx.get(f"{server.url}/models").json()}


def _post(server: Server, source: str, target: str, **more: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/translate", json=BODY | {"source": source, "target": target} | more, timeout=60)


def _events(answer: httpx.Response) -> list[tuple[str, dict[str, Any], bool]]:
    """Return the name, the data, and whether it has an id, of each event."""
    blocks = [block for block in answer.text.split("\r\n\r\n") if "event: " in block]
    fields = [dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":") for block in blocks]
    return [(each["event"], json.loads(each["data"]), "id" in each) for each in fields]


def test_a_pair_is_fetched_by_its_first_request(index: FileServer, start_server: StartServer) -> None:
    gate = index.answers["/de-en"].gate = threading.Event()
    with start_server("--models", "argos:") as server:
        assert _languages(server)["de"]["targets"] == ["de", "en", "es", "fr"]
        assert _languages(server)["de"]["downloadable"] == ["en", "es", "fr"]
        assert set(_states(server).values()) == {"remote"}

        late = _post(server, "de", "en", timeout_seconds=1)
        assert late.status_code == 504
        assert "argos:de-en: downloading" in late.json()["error"]
        assert _states(server)["argos:de-en"] == "downloading", "it goes on for the next request"
        gate.set()

        streamed = _post(server, "de", "fr", stream=True)
        assert streamed.status_code == 200, streamed.text
        events = _events(streamed)
        assert [name for name, _, _ in events[:2]] == ["start", "loading"]
        assert events[0][1]["pivot"] == "en"
        assert {data["model"] for name, data, _ in events if name == "loading"} == {"argos:de-en", "argos:en-fr"}
        assert all(has_id != (name == "loading") for name, _, has_id in events)
        assert events[-1][0] == "done"

        again = _events(_post(server, "de", "fr", stream=True))
        assert "loading" not in {name for name, _, _ in again}
        numbered = [data for name, data, _ in events if name in ("token", "segment")]
        assert [data for name, data, _ in again if name in ("token", "segment")] == numbered
        assert _languages(server)["de"].get("downloadable") == ["es"]
        assert "downloadable" not in _languages(server)["fr"]
        assert _post(server, "de", "fr").json()["translatedText"] == events[-1][1]["translatedText"]

        refused = _post(server, "en", "es")
        assert refused.status_code == 503
        assert refused.json()["error"].startswith("argos:en-es: ")
        assert _post(server, "en", "fr").status_code == 200
    index.requests.clear()
    with start_server("--models", "argos:", "--offline") as server:
        assert _states(server) == {"argos:de-en": "unloaded", "argos:en-fr": "unloaded"}
        assert _post(server, "de", "fr").json()["translatedText"] == events[-1][1]["translatedText"]
    assert not index.requests


@pytest.mark.slow
def test_the_disk_is_bounded_and_a_removed_model_comes_back(index: FileServer, start_server: StartServer) -> None:
    flags = ("--models", "argos:de-en,argos:en-fr", "--on-demand", "--cache-limit-gb", "1e-6")
    with start_server(*flags, "--max-models-memory-mb", "31", constants={POLL: 0.2}) as server:
        first = _post(server, "de", "en").json()
        assert _post(server, "en", "fr").status_code == 200
        wait_for(lambda: _states(server) == {"argos:de-en": "remote", "argos:en-fr": "ready"})
        assert _post(server, "de", "en").json() == first


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--models", "acme/en-fr", "--on-demand"], "hf:acme/en-fr: the name does not say the languages"),
        (["--on-demand"], "on_demand: needs models with the names of public models"),
        (["--models", "argos:", "--cache-limit-gb", "0"], "cache_limit_gb"),
    ],
)
def test_what_cannot_be_fetched_on_demand_is_refused(flags: list[str], message: str, start_server: StartServer) -> None:
    with start_server(*flags, ready=False) as server:
        assert server.process.wait(START_SECONDS) == 2
        assert message in server.log.read_text()
