"""Keys, limits and quotas on real servers, asked by real clients."""

import asyncio
import json
import time
import urllib.error
from contextlib import closing

import deepl
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from service.client import Client, Refused
from tests.system.access.conftest import REQUEST, TEXT, TRANSLATED, KeyedServer
from tests.system.commands import dragoman_here
from tests.system.conftest import Server
from tests.system.sentences import LONG_TEXT
from tests.waiting import wait_for


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
        httpx.post(url, json=body, headers={"X-Goog-Api-Key": key}),
    ]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {"translatedText": TRANSLATED})] * 7
    of_deepl = {"text": TEXT, "source_lang": "EN", "target_lang": "FR", "auth_key": key}
    for answer in (
        httpx.post(f"{keyed.url}/v2/translate", json=of_deepl),
        httpx.post(f"{keyed.url}/v2/translate", data=of_deepl),
        httpx.get(f"{keyed.url}/v2/translate", params=of_deepl),
    ):
        assert answer.json()["translations"][0]["text"] == TRANSLATED
    streamed = httpx.get(f"{url}/stream", params=body | {"api_key": key})
    assert "event: done" in streamed.text


@pytest.mark.parametrize(
    ("key", "status", "code"), [(None, 400, "key_required"), ("", 400, "key_required"), ("wrong", 403, "invalid_key")]
)
def test_without_a_right_key_nothing_is_returned(keyed: KeyedServer, key: str | None, status: int, code: str) -> None:
    """LibreTranslate's statuses, DeepL's and OpenAI's."""
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
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    for method, path in (("POST", "chat/completions"), ("GET", "models"), ("GET", "models/dragoman-en-fr")):
        answer = httpx.request(method, f"{keyed.url}/v1/{path}", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
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
        assert (usage.count, usage.limit) == (24, 30)
        with pytest.raises(deepl.QuotaExceededException):
            client.translate_text(TEXT, source_lang="EN", target_lang="FR")
        assert client.get_usage().character.count == 24
    refused = httpx.post(f"{keyed.url}/translate", json={"q": TEXT, **REQUEST, "api_key": keyed.keys["quota"]})
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")


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
    """Pages of other origins get tokens as they come, too."""
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


def test_our_client_and_command_bring_a_key(keyed: KeyedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(keyed.url, api_key=keyed.keys["free"]) as client:
        assert client.translate(TEXT, source="en", target="fr").text == TRANSLATED
    with Client(keyed.url) as stranger, pytest.raises(Refused, match="requires an API key"):
        stranger.translate(TEXT, source="en", target="fr")
    command = ("translate", "--url", keyed.url, TEXT)
    wrong = dragoman_here(*command, "--api-key", "wrong")
    assert (wrong.returncode, wrong.stderr) == (2, "dragoman: Invalid API key\n")
    monkeypatch.setenv("DRAGOMAN_API_KEY", keyed.keys["free"])
    assert dragoman_here(*command).stdout == f"{TRANSLATED}\n"


def _log_with(server: Server, line: str) -> str:
    wait_for(lambda: line in server.log.read_text(), 10, otherwise=server.log.read_text)
    return server.log.read_text()


def test_the_log_holds_neither_text_nor_key(keyed: KeyedServer) -> None:
    """The promise holds however texts and keys are sent, and however the request ends."""
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
