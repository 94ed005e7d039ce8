"""Charges to a key's quota, on real servers."""

import os
import re
import signal
from contextlib import closing
from pathlib import Path

import deepl
import httpx
import pytest

from service.access.key_store import KeyLimits, KeyStore
from tests.service.documents.conftest import FILES
from tests.system.access.conftest import REQUEST, TEXT, KeyedServer
from tests.system.conftest import Server, StartServer
from tests.system.sentences import LONG_TEXT, SENTENCES


def _resuming(events: str) -> dict[str, str]:
    """Return the headers that resume a stream behind the first of these events."""
    found = re.search(r"^id: (\d+-[0-9A-Za-z_-]{24})\r?$", events, re.MULTILINE)
    assert found is not None, events
    return {"Last-Event-ID": found[1]}


def _characters(server: KeyedServer | Server, key: str) -> int:
    usage = httpx.get(f"{server.url}/v2/usage", headers={"Authorization": f"Bearer {key}"})
    count = usage.json()["character_count"]
    assert isinstance(count, int)
    return count


def test_what_fails_costs_nothing_of_the_quota(keyed: KeyedServer) -> None:
    key = keyed.keys["free"]
    before = _characters(keyed, key)
    for body in (
        {"target": "xx"},
        {"q": "x" * 50_001},
        {"beam_size": 4, "temperature": 1.0},
        {"target": "xx", "stream": True},
    ):
        answer = httpx.post(f"{keyed.url}/translate", json={"q": TEXT, **REQUEST, "api_key": key, **body})
        assert answer.status_code in (400, 413)
    assert _characters(keyed, key) == before


def test_a_stream_that_is_resumed_is_paid_once(keyed: KeyedServer) -> None:
    """The way of resuming does not matter; another text is another stream."""
    key, url = keyed.keys["free"], f"{keyed.url}/translate"
    text = f"{TEXT} It is my cat."
    body = {"q": text, **REQUEST}
    headers = {"Authorization": f"Bearer {key}"}
    before = _characters(keyed, key)
    with httpx.stream("POST", url, json=body | {"stream": True}, headers=headers, timeout=60) as broken:
        lines = broken.iter_lines()
        after_start = _resuming(next(lines))
        assert any(line == "event: token" for line in lines)
    paid = before + len(text)
    for resumed in (
        httpx.post(url, json=body | {"stream": True, "api_key": key}, headers=after_start),
        httpx.post(url, data=body, headers=headers | {"Accept": "text/event-stream"} | after_start),
    ):
        assert "event: done" in resumed.text
        assert _resuming(resumed.text) == {"Last-Event-ID": after_start["Last-Event-ID"].replace("0-", "1-", 1)}
        assert _characters(keyed, key) == paid
    other = f"{text} Yes."
    httpx.get(f"{url}/stream", params=body | {"q": other}, headers=headers | after_start)
    assert _characters(keyed, key) == paid + len(other)
    httpx.get(f"{url}/stream", params=body, headers=headers)
    assert _characters(keyed, key) == paid + len(other) + len(text)


@pytest.mark.parametrize("last_id", ["1", "1-00c0ffee", "1-AWte8GUAAAAAAAAAAAAAAAAA"])
def test_an_id_without_a_signature_of_the_server_is_charged(keyed: KeyedServer, last_id: str) -> None:
    """One of an earlier version, or a forged one: the stream begins behind its number, as every resumed one."""
    key = keyed.keys["free"]
    text = f"{TEXT} It is her cat."
    body = {"q": text, **REQUEST, "stream": True, "api_key": key}
    first = httpx.post(f"{keyed.url}/translate", json=body).text
    assert "event: done" in first
    before = _characters(keyed, key)
    again = httpx.post(f"{keyed.url}/translate", json=body, headers={"Last-Event-ID": last_id}).text
    assert "event: done" in again
    assert _resuming(again) != _resuming(first)
    assert _characters(keyed, key) == before + len(text)


def test_an_id_behind_the_end_costs_nothing(keyed: KeyedServer) -> None:
    key = keyed.keys["free"]
    body = {"q": f"{TEXT} It is our cat.", **REQUEST, "stream": True, "api_key": key}
    before = _characters(keyed, key)
    for _ in range(3):
        answer = httpx.post(f"{keyed.url}/translate", json=body, headers={"Last-Event-ID": "9" * 15})
        assert (answer.status_code, answer.content) == (204, b"")
        assert _characters(keyed, key) == before


def test_a_stream_that_its_deadline_ends_is_paid_and_goes_on_for_nothing(keyed: KeyedServer) -> None:
    """Were the rest given back, a short deadline would pay for a whole stream that resumes the first one."""
    key = keyed.keys["free"]
    # Far too much for the time, of which there is enough for a beginning.
    body = {"q": LONG_TEXT, **REQUEST, "stream": True, "api_key": key, "beam_size": 16}
    short = body | {"timeout_seconds": 1.0}
    before = _characters(keyed, key)
    streamed = httpx.post(f"{keyed.url}/translate", json=short, timeout=60).text
    assert '"code":"deadline_exceeded"' in streamed
    assert _characters(keyed, key) == before + len(LONG_TEXT)
    with httpx.stream("POST", f"{keyed.url}/translate", json=body, headers=_resuming(streamed), timeout=60) as rest:
        assert any(line == "event: token" for line in rest.iter_lines())
    assert _characters(keyed, key) == before + len(LONG_TEXT)
    # A single answer is whole or none.
    answer = httpx.post(f"{keyed.url}/translate", json=short | {"stream": False}, timeout=60)
    assert answer.status_code == 504
    assert _characters(keyed, key) == before + len(LONG_TEXT)


def test_characters_of_a_document_are_charged_once(keyed: KeyedServer) -> None:
    key = keyed.keys["documents"]

    def send(content: bytes, name: str) -> httpx.Response:
        data = {"target": "fr", "api_key": key}
        return httpx.post(f"{keyed.url}/translate_file", data=data, files={"file": (name, content)}, timeout=60)

    assert httpx.post(f"{keyed.url}/documents", files={"file": ("a.docx", b"")}).status_code == 400
    assert send((FILES / "report.docx").read_bytes(), "a.docx").status_code == 200
    assert _characters(keyed, key) == 295
    assert send(b"broken", "a.docx").status_code == 400
    assert send(b"Yes. " * 100, "a.txt").json()["code"] == "quota_exceeded"
    assert _characters(keyed, key) == 295


def test_glossaries_are_a_key_s_not_a_name_s(keyed: KeyedServer) -> None:
    with closing(KeyStore(keyed.path)) as file:
        first = file.add("kiosk", KeyLimits())
    with closing(deepl.DeepLClient(first, server_url=keyed.url)) as client:
        made = client.create_glossary("pets", "EN", "FR", {"cat": "matou"})
        assert [each.name for each in client.list_glossaries()] == ["pets"]
    with closing(KeyStore(keyed.path)) as file:
        file.remove("kiosk")
        second = file.add("kiosk", KeyLimits())
    with closing(deepl.DeepLClient(second, server_url=keyed.url)) as client:
        assert client.list_glossaries() == []
        with pytest.raises(deepl.DeepLException):
            client.translate_text(TEXT, source_lang="EN", target_lang="FR", glossary=made.glossary_id)


def test_another_glossary_of_the_same_name_is_paid_for(keyed: KeyedServer) -> None:
    key = keyed.keys["free"]
    body = {"q": TEXT, **REQUEST, "stream": True, "api_key": key, "glossary_id": "pets"}
    headers: dict[str, str] = {}
    before = _characters(keyed, key)
    with closing(deepl.DeepLClient(key, server_url=keyed.url)) as client:
        made = client.create_glossary("pets", "EN", "FR", {"cat": "matou"})
        for asked in (body, body | {"glossary_id": made.glossary_id}):
            answer = httpx.post(f"{keyed.url}/translate", json=asked, headers=headers).text
            assert "matou" in answer
            headers = _resuming(answer)
        assert _characters(keyed, key) == before + len(TEXT)
        client.delete_glossary(made)
        client.create_glossary("pets", "EN", "FR", {"cat": "minou"})
    assert "minou" in httpx.post(f"{keyed.url}/translate", json=body, headers=headers).text
    assert _characters(keyed, key) == before + 2 * len(TEXT)


def test_without_a_key_streams_are_signed_where_characters_are_limited(start_server: StartServer) -> None:
    body = {"q": TEXT, **REQUEST, "stream": True}
    with start_server("--anonymous-characters-per-minute", str(len(TEXT))) as server:
        first = httpx.post(f"{server.url}/translate", json=body).text
        assert httpx.post(f"{server.url}/translate", json=body).status_code == 429
        for _ in range(2):
            resumed = httpx.post(f"{server.url}/translate", json=body, headers=_resuming(first))
            assert "event: done" in resumed.text


def test_after_kill_9_a_stream_that_has_begun_is_charged_once(tmp_path: Path, start_server: StartServer) -> None:
    path = tmp_path / "keys.db"
    with closing(KeyStore(path, create=True)) as file:
        key = file.add("kiosk", KeyLimits(characters_per_month=60_000))
    flags = ("--keys", str(path))
    short = {"q": TEXT, **REQUEST, "api_key": key}
    text = " ".join(SENTENCES * 2)
    long = {"q": text, **REQUEST, "api_key": key, "stream": True}
    charged = 2 * len(TEXT) + len(text)
    with start_server(*flags) as server:
        assert httpx.post(f"{server.url}/translate", json=short).status_code == 200
        first = httpx.post(f"{server.url}/translate", json=short | {"stream": True}).text
        assert "event: done" in first
        with httpx.stream("POST", f"{server.url}/translate", json=long) as response:
            received = response.iter_raw()  # if this were garbage, the connection would be closed
            after_start = _resuming(next(received).decode())
            assert _characters(server, key) == charged
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
            server.wait_until_gone()
    with start_server(*flags) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        for body, headers in ((long, after_start), (long, after_start), (short | {"stream": True}, _resuming(first))):
            assert "event: done" in client.post("/translate", json=body, headers=headers).text
            assert _characters(server, key) == charged
