"""Servers whose keys, or glossaries, cannot be written."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import deepl
import httpx
import pytest

from service.access.key_store import KeyLimits, KeyStore
from tests.disks import SmallDisk
from tests.system.access.conftest import REQUEST, TEXT, TRANSLATED
from tests.system.conftest import Server, StartServer


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the database as a process does that has begun to write and never ends."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def _added(path: Path) -> str:
    with closing(KeyStore(path, create=True)) as file:
        return file.add("kiosk", KeyLimits(characters_per_month=1000))


@pytest.fixture(autouse=True)
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let DeepL's client try once; by default it retries for half a minute."""
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)


def _check_refused(server: Server, key: str, reason: str) -> None:
    """Check that metered requests are refused at once with one line in the log, and that others are served."""
    body = {"q": TEXT, **REQUEST}
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for stream in (False, True):
            refused = client.post("/translate", json=body | {"api_key": key, "stream": stream})
            assert (refused.status_code, refused.json()["code"]) == (503, "keys_unavailable")
            assert refused.headers["retry-after"] == "5"
        assert client.get("/readyz").status_code == 200
        assert client.post("/translate", json=body).json() == {"translatedText": TRANSLATED}
    with closing(deepl.DeepLClient(key, server_url=server.url)) as theirs:
        with pytest.raises(deepl.DeepLException, match="the server cannot read or write its API keys"):
            theirs.translate_text(TEXT, target_lang="FR")
        assert theirs.get_usage().character.count == 0
    log = server.log.read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    reasons = [line["reason"] for line in lines if line["message"] == "the key file cannot be used"]
    assert reasons == [reason] * 3
    assert "Traceback" not in log


def _check_answered(server: Server, key: str) -> None:
    body = {"q": TEXT, **REQUEST, "api_key": key}
    assert httpx.post(f"{server.url}/translate", json=body, timeout=60).json() == {"translatedText": TRANSLATED}
    with closing(deepl.DeepLClient(key, server_url=server.url)) as client:
        assert client.get_usage().character.count == len(TEXT)


def test_a_file_of_keys_that_another_process_has_locked(tmp_path: Path, start_server: StartServer) -> None:
    path = tmp_path / "keys.db"
    key = _added(path)
    with start_server("--keys", str(path), "--anonymous") as server:
        with _locked(path):
            _check_refused(server, key, f"{path}: database is locked")
        _check_answered(server, key)


def test_a_file_of_keys_on_a_full_disk(disk: SmallDisk, start_server: StartServer) -> None:
    path = disk.path / "keys.db"
    key = _added(path)
    with start_server("--keys", str(path), "--anonymous") as server:
        disk.fill()
        _check_refused(server, key, f"{path}: database or disk is full")
        disk.make_room()
        _check_answered(server, key)


def test_glossaries_on_a_full_disk(disk: SmallDisk, start_server: StartServer) -> None:
    """Stored glossaries go on working; the error says why another one cannot be created."""
    kept = disk.path / "glossaries"
    with ExitStack() as stack:
        server = stack.enter_context(start_server("--glossaries", str(kept)))
        client = stack.enter_context(closing(deepl.DeepLClient("any", server_url=server.url)))
        pets = client.create_glossary("pets", "EN", "FR", {"cat": "matou"})
        disk.fill()
        with pytest.raises(deepl.DeepLException, match="glossaries: the server's disk is full") as caught:
            client.create_glossary("more", "EN", "FR", {"dog": "toutou"})
        assert caught.value.http_status_code == 507
        assert [each.name for each in kept.iterdir()] == [f"{pets.glossary_id}.json"]
        translated = client.translate_text(TEXT, source_lang="EN", target_lang="FR", glossary=pets)
        assert "matou" in str(translated)
        disk.make_room()
        client.create_glossary("more", "EN", "FR", {"dog": "toutou"})
        log = server.log.read_text()
    assert "Traceback" not in log
    assert log.count("No space left on device") == 1
