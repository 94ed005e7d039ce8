"""Keys, limits and quotas on real servers, asked by real clients."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import deepl
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from service.access.keys import KeyFile, KeyLimits
from service.client import Client, Refused
from tests.service.access.redis import needs_redis, run_redis
from tests.system.conftest import Server, StartServer, run_server
from tests.system.sentences import LONG_TEXT

REQUEST = {"source": "en", "target": "fr"}
TEXT = "I am a cat."
TRANSLATED = "Je suis un chat."
LIMITS: Mapping[str, KeyLimits] = {
    "free": KeyLimits(),
    "ten": KeyLimits(requests_per_minute=10),
    "thirty": KeyLimits(requests_per_minute=30),
    "stream": KeyLimits(streams=1),
    "quota": KeyLimits(characters_per_month=30),
}


class KeyedServer:
    def __init__(self, server: Server, keys: Mapping[str, str]) -> None:
        self.server = server
        self.url = server.url
        self.keys = keys


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    """A server with a key for each of LIMITS."""
    directory = tmp_path_factory.mktemp("keyed")
    path = directory / "keys.db"
    with closing(KeyFile(path, create=True)) as file:
        keys = {name: file.add(name, limits) for name, limits in LIMITS.items()}
    flags = ("--keys", str(path), "--cors-origins", "https://a.example", "--log-level", "debug")
    with run_server(directory / "log", *flags) as server:
        yield KeyedServer(server, keys)


def test_every_way_to_bring_a_key(keyed: KeyedServer) -> None:
    key, url = keyed.keys["free"], f"{keyed.url}/translate"
    body = {"q": TEXT, **REQUEST}
    answers = [
        httpx.post(url, json=body | {"api_key": key}),
        httpx.post(url, data=body | {"api_key": key}),
        httpx.post(url, files={name: (None, value) for name, value in (body | {"api_key": key}).items()}),
        httpx.post(url, json=body, params={"api_key": key}),
        httpx.post(url, json=body, headers={"Authorization": f"Bearer {key}"}),
        httpx.post(url, json=body | {"api_key": ""}, headers={"Authorization": f"DeepL-Auth-Key {key}"}),
    ]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {"translatedText": TRANSLATED})] * 6
    streamed = httpx.get(f"{url}/stream", params=body | {"api_key": key})
    assert "event: done" in streamed.text


@pytest.mark.parametrize(
    ("key", "status", "code"), [(None, 400, "key_required"), ("", 400, "key_required"), ("wrong", 403, "invalid_key")]
)
def test_without_a_right_key_nothing_is_told(keyed: KeyedServer, key: str | None, status: int, code: str) -> None:
    """LibreTranslate's statuses, and DeepL's one."""
    body = {"q": TEXT, **REQUEST, **({} if key is None else {"api_key": key})}
    answers = [
        httpx.post(f"{keyed.url}/translate", json=body),
        httpx.post(f"{keyed.url}/translate", json=body | {"stream": True}),
        httpx.post(f"{keyed.url}/detect", json={name: body[name] for name in body if name in ("q", "api_key")}),
        httpx.get(f"{keyed.url}/translate/stream", params=body),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(status, code)] * 4
    headers = {"Authorization": f"DeepL-Auth-Key {key}"} if key else {}
    for path in ("translate", "languages", "usage"):
        answer = httpx.post(f"{keyed.url}/v2/{path}", headers=headers)
        assert (answer.status_code, set(answer.json())) == (403, {"message"})
    for path in ("languages", "frontend/settings", "health", "metrics", ""):
        assert httpx.get(f"{keyed.url}/{path}").status_code == 200
    settings = httpx.get(f"{keyed.url}/frontend/settings").json()
    assert (settings["apiKeys"], settings["keyRequired"]) == (True, True)


def test_libretranslatepy_with_a_key(keyed: KeyedServer) -> None:
    assert LibreTranslateAPI(keyed.url, keyed.keys["free"]).translate(TEXT, "en", "fr") == TRANSLATED
    with pytest.raises(urllib.error.HTTPError) as caught:
        LibreTranslateAPI(keyed.url, "wrong").translate(TEXT, "en", "fr")
    with caught.value as answer:
        assert answer.code == 403
        assert json.load(answer)["error"] == "Invalid API key"


def test_deepl_with_a_key(keyed: KeyedServer) -> None:
    with closing(deepl.DeepLClient("wrong", server_url=keyed.url)) as stranger:
        with pytest.raises(deepl.AuthorizationException):
            stranger.translate_text(TEXT, target_lang="FR")
        with pytest.raises(deepl.AuthorizationException):
            stranger.get_usage()
    with closing(deepl.DeepLClient(keyed.keys["quota"], server_url=keyed.url)) as client:
        for _ in range(2):
            client.translate_text(TEXT, source_lang="EN", target_lang="FR")
        usage = client.get_usage().character
        assert (usage.count, usage.limit) == (22, 30)
        with pytest.raises(deepl.QuotaExceededException):
            client.translate_text(TEXT, source_lang="EN", target_lang="FR")
        assert client.get_usage().character.count == 22
    refused = httpx.post(f"{keyed.url}/translate", json={"q": TEXT, **REQUEST, "api_key": keyed.keys["quota"]})
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")


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
    """In whatever way it is asked for again; another text is another stream."""
    key, url = keyed.keys["free"], f"{keyed.url}/translate"
    text = f"{TEXT} It is my cat."
    body = {"q": text, **REQUEST}
    headers = {"Authorization": f"Bearer {key}"}
    before = _characters(keyed, key)
    with httpx.stream("POST", url, json=body | {"stream": True}, headers=headers, timeout=60) as broken:
        assert any(line == "event: token" for line in broken.iter_lines())
    paid = before + len(text)
    for resumed in (
        httpx.post(url, json=body | {"stream": True, "api_key": key}, headers={"Last-Event-ID": "1"}),
        httpx.post(url, data=body, headers=headers | {"Accept": "text/event-stream", "Last-Event-ID": "2"}),
    ):
        assert "event: done" in resumed.text
        assert _characters(keyed, key) == paid
    other = f"{text} Yes."
    httpx.get(f"{url}/stream", params=body | {"q": other}, headers=headers | {"Last-Event-ID": "1"})
    assert _characters(keyed, key) == paid + len(other)
    httpx.get(f"{url}/stream", params=body, headers=headers)
    assert _characters(keyed, key) == paid + len(other) + len(text)


def test_what_has_come_to_its_end_is_not_repeated_for_ever(keyed: KeyedServer) -> None:
    key = keyed.keys["free"]
    text = f"{TEXT} It is his cat."
    body = {"q": text, **REQUEST, "stream": True, "api_key": key}
    assert "event: done" in httpx.post(f"{keyed.url}/translate", json=body).text
    paid = [_characters(keyed, key)]
    for _ in range(4):
        assert "event: done" in httpx.post(f"{keyed.url}/translate", json=body, headers={"Last-Event-ID": "0"}).text
        paid.append(_characters(keyed, key))
    # A reader has the end a moment before the server knows it.
    assert [paid[2] - paid[0], paid[4] - paid[0]] == [0, len(text)]


def test_a_short_deadline_does_not_pay_for_another_stream(keyed: KeyedServer) -> None:
    """One that resumes the first while this still runs."""
    key = keyed.keys["free"]
    body = {"q": LONG_TEXT, **REQUEST, "stream": True, "api_key": key, "beam_size": 16}
    before = _characters(keyed, key)
    with httpx.stream("POST", f"{keyed.url}/translate", json=body | {"timeout_seconds": 3.0}, timeout=60) as first:
        lines = first.iter_lines()
        assert any(line == "event: start" for line in lines)
        headers = {"Last-Event-ID": "0"}
        with httpx.stream("POST", f"{keyed.url}/translate", json=body, headers=headers, timeout=60) as second:
            assert any(line == "event: token" for line in second.iter_lines())
            assert any('"code":"deadline_exceeded"' in line for line in lines)
            assert _characters(keyed, key) == before + len(LONG_TEXT)


def test_a_stream_that_sets_a_short_deadline_pays_for_what_it_got(keyed: KeyedServer) -> None:
    key = keyed.keys["free"]
    # Far too much for the time, of which there is enough for a beginning.
    body = {"q": LONG_TEXT, **REQUEST, "stream": True, "api_key": key, "timeout_seconds": 1.0, "beam_size": 16}
    before = _characters(keyed, key)
    streamed = httpx.post(f"{keyed.url}/translate", json=body, timeout=60).text
    assert '"code":"deadline_exceeded"' in streamed
    paid = _characters(keyed, key) - before
    assert 0 < paid < len(LONG_TEXT)
    # A single answer is whole or none.
    answer = httpx.post(f"{keyed.url}/translate", json=body | {"stream": False}, timeout=60)
    assert answer.status_code == 504
    assert _characters(keyed, key) == before + paid


@needs_redis
def test_with_redis_a_stream_is_resumed_on_another_server_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with closing(KeyFile(path, create=True)) as file:
        key = file.add("kiosk", KeyLimits(characters_per_month=1000))
    body = {"q": TEXT, **REQUEST, "stream": True, "api_key": key}
    with run_redis(tmp_path) as redis:
        flags = ("--keys", str(path), "--redis-url", redis.url)
        with run_server(tmp_path / "one.log", *flags) as one:
            assert "event: done" in httpx.post(f"{one.url}/translate", json=body).text
        with run_server(tmp_path / "other.log", *flags) as other:
            resumed = httpx.post(f"{other.url}/translate", json=body, headers={"Last-Event-ID": "3"})
            assert "event: done" in resumed.text
            assert _characters(other, key) == len(TEXT)


def test_glossaries_are_a_key_s_not_a_name_s(tmp_path: Path, start_server: StartServer) -> None:
    path = tmp_path / "keys.db"
    with closing(KeyFile(path, create=True)) as file:
        first = file.add("kiosk", KeyLimits())
    with start_server("--keys", str(path), "--glossaries", str(tmp_path / "glossaries")) as server:
        with closing(deepl.DeepLClient(first, server_url=server.url)) as client:
            made = client.create_glossary("pets", "EN", "FR", {"cat": "matou"})
            assert [each.name for each in client.list_glossaries()] == ["pets"]
        with closing(KeyFile(path)) as file:
            file.remove("kiosk")
            second = file.add("kiosk", KeyLimits())
        with closing(deepl.DeepLClient(second, server_url=server.url)) as client:
            assert client.list_glossaries() == []
            with pytest.raises(deepl.DeepLException):
                client.translate_text(TEXT, source_lang="EN", target_lang="FR", glossary=made.glossary_id)


def test_another_glossary_of_the_same_name_is_paid_for(tmp_path: Path, start_server: StartServer) -> None:
    path = tmp_path / "keys.db"
    with closing(KeyFile(path, create=True)) as file:
        key = file.add("kiosk", KeyLimits())
    with start_server("--keys", str(path), "--glossaries", str(tmp_path / "glossaries")) as server:
        body = {"q": TEXT, **REQUEST, "stream": True, "api_key": key, "glossary_id": "pets"}
        headers = {"Last-Event-ID": "0"}
        with closing(deepl.DeepLClient(key, server_url=server.url)) as client:
            made = client.create_glossary("pets", "EN", "FR", {"cat": "matou"})
            for asked in (body, body | {"glossary_id": made.glossary_id}):
                assert "matou" in httpx.post(f"{server.url}/translate", json=asked, headers=headers).text
            assert _characters(server, key) == len(TEXT)
            client.delete_glossary(made)
            client.create_glossary("pets", "EN", "FR", {"cat": "minou"})
        assert "minou" in httpx.post(f"{server.url}/translate", json=body, headers=headers).text
        assert _characters(server, key) == 2 * len(TEXT)


async def test_two_keys_under_load_get_their_own_limits(keyed: KeyedServer) -> None:
    limits = httpx.Limits(max_connections=20)
    started = time.monotonic()
    async with httpx.AsyncClient(base_url=keyed.url, limits=limits, timeout=60) as client:

        async def ask(name: str) -> tuple[str, httpx.Response]:
            return name, await client.post("/translate", json={"q": TEXT, **REQUEST, "api_key": keyed.keys[name]})

        answers = await asyncio.gather(*(ask(name) for _ in range(60) for name in ("ten", "thirty", "free")))
    elapsed = time.monotonic() - started
    for name, limit in (("ten", 10), ("thirty", 30), ("free", 60)):
        mine = [answer for caller, answer in answers if caller == name]
        answered = [answer for answer in mine if answer.status_code == 200]
        # The window slides while they ask, and where a minute begins meanwhile its first second may let one more in.
        assert min(limit, len(mine)) <= len(answered) <= limit + 1 + int(elapsed * limit / 60)
        for answer in mine:
            if answer not in answered:
                assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
                assert 1 <= int(answer.headers["retry-after"]) <= 120


def test_streams_at_the_same_time_are_limited_and_given_back(keyed: KeyedServer) -> None:
    """And pages of other origins get tokens as they come, too."""
    body = {"q": LONG_TEXT, **REQUEST, "stream": True, "api_key": keyed.keys["stream"]}
    url = f"{keyed.url}/translate"
    with httpx.Client(timeout=60) as client:
        with client.stream("POST", url, json=body, headers={"Origin": "https://a.example"}) as running:
            assert running.headers["access-control-allow-origin"] == "https://a.example"
            lines = running.iter_lines()
            assert any(line == "event: token" for line in lines)
            refused = client.post(url, json=body)
            assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
            assert refused.headers["retry-after"]
            # A whole answer is no stream.
            assert client.post(url, json=body | {"q": TEXT, "stream": False}).status_code == 200
        keyed.server.wait_for_metric("dragoman_slots_used", 0)
        assert "event: done" in client.post(url, json=body | {"q": TEXT}).text


def test_a_quota_survives_kill_9(tmp_path: Path, start_server: StartServer) -> None:
    """The moment an answer is there, or the first event of a stream, its characters are on the file."""
    path = tmp_path / "keys.db"
    with closing(KeyFile(path, create=True)) as file:
        key = file.add("kiosk", KeyLimits(characters_per_month=1000))
    flags = ("--keys", str(path))
    body = {"q": TEXT, **REQUEST, "api_key": key}
    with start_server(*flags) as server:
        assert httpx.post(f"{server.url}/translate", json=body).status_code == 200
        with httpx.stream("POST", f"{server.url}/translate", json=body | {"stream": True}) as response:
            next(response.iter_raw())
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
            server.wait_until_gone()
    with start_server(*flags) as server, closing(deepl.DeepLClient(key, server_url=server.url)) as client:
        usage = client.get_usage().character
        assert (usage.count, usage.limit) == (2 * len(TEXT), 1000)


def test_our_client_and_command_bring_a_key(keyed: KeyedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(keyed.url, api_key=keyed.keys["free"]) as client:
        assert client.translate(TEXT, source="en", target="fr").text == TRANSLATED
    with Client(keyed.url) as stranger, pytest.raises(Refused, match="wants an API key"):
        stranger.translate(TEXT, source="en", target="fr")
    command = [sys.executable, "-m", "service", "translate", "--url", keyed.url, TEXT]
    environment = {**os.environ, "DRAGOMAN_API_KEY": keyed.keys["free"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{TRANSLATED}\n"
    wrong = subprocess.run([*command, "--api-key", "wrong"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr) == (2, "dragoman: Invalid API key\n")


def _log_with(server: Server, line: str) -> str:
    deadline = time.monotonic() + 10
    while line not in (log := server.log.read_text()):
        assert time.monotonic() < deadline, log
        time.sleep(0.01)
    return log


def test_the_log_holds_neither_text_nor_key(keyed: KeyedServer) -> None:
    """Whatever way they come, and however the request ends."""
    key, url = keyed.keys["free"], f"{keyed.url}/translate"
    text = "Wherefore xylophones quiver"
    for body in ({}, {"stream": True}, {"target": "xx"}, {"beam_size": 99}, {"unknown": text}, {"q": [text, 1]}):
        whole = {"q": text, **REQUEST, "api_key": key, **body}
        httpx.post(url, json=whole)
        httpx.post(url, data={name: str(value) for name, value in whole.items()})
        httpx.get(f"{url}/stream", params={name: str(value) for name, value in whole.items()})
    httpx.post(url, json={"q": text, **REQUEST, "api_key": f"{key}-{text}"})
    httpx.post(url, content=f'{{"q": "{text}", "api_key": "{key}"', headers={"Content-Type": "application/json"})
    httpx.post(f"{keyed.url}/v2/translate", data={"text": text}, headers={"Authorization": f"DeepL-Auth-Key {key}"})
    httpx.get(f"{keyed.url}/{text}", headers={"Authorization": f"Bearer {key}", "X-Request-ID": "this-one"})
    log = _log_with(keyed.server, '"request_id": "this-one"')  # of a request that was answered, and then logged
    assert '"key_name": "free"' in log
    assert key not in log
    assert key.split("-", 2)[2] not in log
    for word in text.split():
        assert word not in log
