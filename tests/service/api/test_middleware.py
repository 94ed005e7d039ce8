"""The application's door, without an engine: whose address counts, which origins, which request id."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request
from fastapi.responses import PlainTextResponse

from model.checkpoint_config import Direction
from service.access.key_store import KeyLimits, KeyStore
from service.api.context import ServiceContext
from service.api.translate_request import TranslateRequest
from service.registry.model_version import ModelVersion, State
from service.registry.scan import FoundModel
from service.server.app import create_app
from service.settings import Settings
from service.stores.glossary_store import GlossaryStore
from service.text.glossary import Glossary
from tests.panics import PanicException

Connect = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """A client at this address, of an application with these settings."""
    async with AsyncExitStack() as stack:

        def connected(address: str = "192.0.2.1", **settings: object) -> httpx.AsyncClient:
            app = create_app(Settings.model_validate(settings))
            stack.push_async_callback(app.state.service.access.aclose)
            transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 4321))
            return httpx.AsyncClient(transport=transport, base_url="http://server")

        yield connected


async def _ask(client: httpx.AsyncClient, forwarded_for: str | None = None) -> int:
    headers = {} if forwarded_for is None else {"X-Forwarded-For": forwarded_for}
    return (await client.get("/v2/usage", headers=headers)).status_code


async def test_a_trusted_proxy_tells_whose_request_it_is(connect: Connect) -> None:
    client = connect("10.1.2.3", trusted_proxies="10.0.0.0/8", anonymous_requests_per_minute=1)
    assert await _ask(client, "192.0.2.1") == 200
    assert await _ask(client, "192.0.2.2") == 200
    assert await _ask(client, "192.0.2.1") == 429
    # What a client wrote itself stands before what the proxy has added.
    assert await _ask(client, "192.0.2.99, 192.0.2.1") == 429
    assert await _ask(client, "192.0.2.99, 192.0.2.1, 10.9.9.9") == 429


@pytest.mark.parametrize("trusted", ["10.0.0.0/8", "10.1.2.3"])
async def test_a_socket_for_both_versions_of_ip_shows_it_otherwise(connect: Connect, trusted: str) -> None:
    client = connect("::ffff:10.1.2.3", trusted_proxies=trusted, anonymous_requests_per_minute=1)
    assert [await _ask(client, address) for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")] == [200, 200, 429]
    other = connect("::ffff:11.1.2.3", trusted_proxies=trusted, anonymous_requests_per_minute=1)
    assert [await _ask(other, address) for address in ("192.0.2.1", "192.0.2.2")] == [200, 429]


@pytest.mark.parametrize("trusted", ["", "10.0.0.0/8"])
async def test_anybody_else_is_not_believed(connect: Connect, trusted: str) -> None:
    client = connect("127.0.0.1", trusted_proxies=trusted, anonymous_requests_per_minute=1)
    assert await _ask(client, "192.0.2.1") == 200
    assert await _ask(client, "192.0.2.2") == 429


@pytest.mark.parametrize(("least", "characters"), [(120, 1), (1, 10)])
async def test_a_declared_length_over_the_limit_is_refused_before_the_body_is_read(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, least: int, characters: int
) -> None:
    """The limit follows that of the characters, so that one is never in the other's way."""
    monkeypatch.setattr("service.server.app.LEAST_BODY_BYTES", least)
    read: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        for piece in (b"{", b"}"):
            read.append(piece)
            yield piece

    client = connect(max_characters=characters)
    answer = await client.post("/translate", content=body(), headers={"Content-Length": "121"})
    assert (answer.status_code, answer.json()["error"]) == (413, "body: more than 120 bytes")
    assert read == []
    answer = await client.post("/translate", content=body(), headers={"Content-Length": "2"})
    assert answer.status_code == 400
    assert read
    metrics = (await client.get("/metrics")).text
    assert 'dragoman_requests_total{endpoint="/translate",outcome="too_long"} 1.0' in metrics


async def test_paths_of_models_are_shown_to_callers_with_a_key_where_keys_are_required(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, hidden = f"{tmp_path}: broken", "shown to callers with an API key"
    failed = ModelVersion(FoundModel("en-fr", tmp_path, ""), State.FAILED, shown)
    monkeypatch.setattr("service.server.composition.configured_models", lambda *_: [failed])
    path = tmp_path / "keys.db"
    with closing(KeyStore(path, create=True)) as file:
        key = file.add("kiosk", KeyLimits())

    async def reason(client: httpx.AsyncClient, **headers: str) -> str:
        response = await client.get("/models", headers=headers)
        assert response.status_code == 200
        message: str = response.json()[0]["reason"]
        return message

    closed = connect(keys=path)
    assert await reason(closed) == await reason(closed, Authorization="Bearer wrong") == hidden
    assert await reason(closed, Authorization=f"Bearer {key}") == shown
    assert await reason(connect(keys=path, anonymous=True)) == await reason(connect()) == shown


async def test_a_refusal_says_when_to_come_again_and_is_counted_by_its_reason(connect: Connect) -> None:
    client = connect(anonymous_requests_per_minute=1)
    assert await _ask(client) == 200
    answer = await client.post("/detect", json={"q": "I see a cat."})
    assert answer.json() == {"error": "too many requests: the limit is 1 a minute", "code": "rate_limited"}
    assert 1 <= int(answer.headers["retry-after"]) <= 120
    usage = await client.get("/v2/usage")
    assert (usage.status_code, usage.json()) == (429, {"message": "too many requests: the limit is 1 a minute"})
    metrics = (await client.get("/metrics")).text
    assert 'dragoman_refusals_total{reason="requests"} 2.0' in metrics
    assert 'dragoman_refusals_total{reason="quota"} 0.0' in metrics
    assert 'dragoman_requests_total{endpoint="/v2/usage",outcome="rate_limited"} 1.0' in metrics
    assert "192.0.2.1" not in metrics


async def test_pages_of_other_origins(connect: Connect) -> None:
    client = connect(cors_origins="https://a.example,https://b.example")
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    for origin, allowed in (("https://b.example", True), ("https://c.example", False)):
        for answer in (
            await client.options("/translate", headers={"Origin": origin, **asked}),
            await client.get("/languages", headers={"Origin": origin}),
            await client.post("/translate", headers={"Origin": origin}, json={}),
        ):
            assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
            assert answer.headers["x-request-id"]
        assert answer.headers["access-control-expose-headers"] == "Retry-After, X-Request-ID"


@pytest.mark.parametrize(
    "origin", ["chrome-extension://abcdefghijklmnop", "moz-extension://0f0e-0c", "http://[::1]:80"]
)
async def test_pages_of_extensions_and_of_other_networks(connect: Connect, origin: str) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Private-Network": "true"}
    answer = await connect(cors_origins=origin).options("/translate", headers={"Origin": origin, **asked})
    assert answer.headers["access-control-allow-origin"] == origin
    assert answer.headers["access-control-allow-private-network"] == "true"


@pytest.mark.parametrize(
    ("headers", "trusted", "url"),
    [
        ({}, "10.0.0.0/8", "http://server/download_file/x"),
        (
            {"X-Forwarded-Prefix": "/mt/", "X-Forwarded-Host": "t.example:8443"},
            "10.0.0.0/8",
            "http://t.example:8443/mt",
        ),
        ({"X-Forwarded-Prefix": "/mt", "X-Forwarded-Proto": "https"}, "10.0.0.0/8", "https://server/mt"),
        ({"X-Forwarded-Prefix": "/a b", "X-Forwarded-Host": "a/b"}, "10.0.0.0/8", "http://server/download_file/x"),
        *(
            ({"X-Forwarded-Prefix": lie}, "10.0.0.0/8", "http://server/download_file/x")
            for lie in ("//evil.example", "javascript:alert(1)", "/..", "/mt/../x", "/./mt", "/mt\r\nA: b", "mt")
        ),
        ({"X-Forwarded-Prefix": "/mt", "X-Forwarded-Host": "t.example"}, "11.0.0.0/8", "http://server/download_file/x"),
    ],
)
async def test_addresses_are_those_that_a_trusted_proxy_names(
    connect: Connect, headers: dict[str, str], trusted: str, url: str
) -> None:
    client = connect("10.1.2.3", trusted_proxies=trusted)
    app = client._transport.app  # type: ignore[attr-defined]

    async def where(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(request.url_for("download_file", name="x")))

    app.router.add_route("/where", where)
    expected = url if url.endswith("/x") else f"{url}/download_file/x"
    assert (await client.get("/where", headers=headers)).text == expected


@pytest.mark.parametrize(
    ("prefix", "path"), [("/translate", "/translate"), ("/mt", "/translate"), ("/mt", "/mt/translate")]
)
async def test_a_prefix_may_be_a_path_of_ours(connect: Connect, prefix: str, path: str) -> None:
    """A proxy has taken it away, or not."""
    client = connect("10.1.2.3", trusted_proxies="10.0.0.0/8")
    answer = await client.post(path, headers={"X-Forwarded-Prefix": prefix}, json={})
    assert (answer.status_code, "q" in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize("path", ["/documents", "/translate_file", "/v2/document"])
@pytest.mark.parametrize("charset", ["punycode", "undefined", "utf_7"])
async def test_the_codec_of_an_upload_is_utf_8(connect: Connect, path: str, charset: str) -> None:
    headers = {"Content-Type": f"multipart/form-data; boundary=B; charset={charset}"}
    answer = await connect().post(path, content=b"--B--\r\n", headers=headers)
    assert (answer.status_code, "charset must be UTF-8" in answer.text) == (400, True)


async def test_nulls_are_absent_fields(connect: Connect) -> None:
    body = {"q": "Hi.", "source": "en", "target": None, "format": None, "alternatives": None, "seed": None}
    answer = await connect().post("/translate", json=body)
    assert (answer.status_code, answer.json()["detail"]) == (400, "target: field required")


async def test_a_key_may_stand_alone_or_be_called_a_token(connect: Connect, tmp_path: Path) -> None:
    client = connect(**_keys(tmp_path))
    with closing(KeyStore(tmp_path / "keys.db")) as store:
        key = store.add("a", KeyLimits())
    for headers, url in (({"Authorization": key}, "/v2/usage"), ({}, f"/v2/usage?token={key}")):
        assert (await client.get(url, headers=headers)).status_code == 200


async def test_without_the_setting_no_origin_is_allowed(connect: Connect) -> None:
    answer = await connect().get("/languages", headers={"Origin": "https://a.example"})
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("given", "kept"),
    [("abc-123:4.5_6", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ('a"b', False), ("", False)],
)
async def test_a_request_id_is_kept_if_it_is_harmless(connect: Connect, given: str, kept: bool) -> None:
    client = connect()
    for path in ("/livez", "/readyz", "/not-there", "/v2/usage"):
        returned = (await client.get(path, headers={"X-Request-ID": given})).headers["x-request-id"]
        assert (returned == given) is kept
        assert returned


@pytest.mark.parametrize("error", [RuntimeError("a bug"), PanicException("a bug")])
async def test_a_bug_is_answered_with_an_id_and_to_other_origins(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def broken(*_: object) -> None:
        raise error

    client = connect(cors_origins="*")
    monkeypatch.setattr("service.translation.translator.Translator.detect", broken)
    answer = await client.post("/detect", json={"q": "Hi."}, headers={"Origin": "https://a.example"})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "a bug" not in answer.text
    assert answer.headers["access-control-allow-origin"] == "*"
    [logged] = [record for record in caplog.records if record.message == "unexpected error"]
    assert logged.__dict__["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_glossary_is_put_in_order_and_a_stream_with_it_named_beside_the_event_loop(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Other requests are served meanwhile."""
    threads: list[threading.Thread] = []

    def noted(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(given: Any) -> Any:
            threads.append(threading.current_thread())
            return function(given)

        return call

    async def is_open(service: ServiceContext, *, resumes: bool) -> None: ...

    monkeypatch.setattr("service.api.translate_request.Glossary", noted(Glossary))
    monkeypatch.setattr(TranslateRequest, "name", noted(TranslateRequest.name))
    monkeypatch.setattr(ServiceContext, "check_open", is_open)
    body = {"q": "a", "source": "en", "target": "fr", "glossary": {"cat": "matou"}, "stream": stream}
    answer = await connect(anonymous_characters_per_minute=100).post("/translate", json=body)
    assert answer.json()["error"] == "no model is loaded"
    assert len(threads) == 1 + stream
    assert threading.main_thread() not in threads


async def test_a_damaged_glossary_is_reported_and_the_others_are_there(connect: Connect, tmp_path: Path) -> None:
    store = GlossaryStore(tmp_path)
    direction = Direction(source="en", target="fr")
    damaged, good = (store.add(name, direction, {"cat": "matou"}, None).id for name in ("damaged", "good"))
    file = tmp_path / f"{damaged}.json"
    file.write_bytes(file.read_bytes().replace(b'"matou"', b"7"))
    client = connect(glossaries=tmp_path)
    answer = await client.get(f"/v2/glossaries/{damaged}/entries")
    assert answer.status_code == 500
    assert answer.json()["message"].startswith("glossary_id: the file of this glossary is damaged")
    assert (await client.get(f"/v2/glossaries/{good}/entries")).text == "cat\tmatou"
    assert len((await client.get("/v2/glossaries")).json()["glossaries"]) == 2
    assert (await client.delete(f"/v2/glossaries/{damaged}")).status_code == 204


@pytest.mark.parametrize("charset", ["punycode", "undefined", "unicode_escape", '"UTF-16"'])
@pytest.mark.parametrize("with_keys", [False, True])
async def test_a_form_s_codec_is_not_the_client_s_choice(
    connect: Connect, tmp_path: Path, charset: str, with_keys: bool
) -> None:
    client = connect(**_keys(tmp_path) if with_keys else {})
    headers = {"Content-Type": f"multipart/form-data; boundary=B; charset={charset}"}
    part = b'--B\r\nContent-Disposition: form-data; name="api_key"\r\n\r\ndragoman-\\ud800-x\r\n--B--\r\n'
    answer = await client.post("/translate", content=part, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("api_key: " if with_keys else "Content-Type: charset must be UTF-8")
    for name in ("utf-8", "UTF8", '"UTF-8"'):
        headers = {"Content-Type": f"multipart/form-data; boundary=B; charset={name}"}
        answer = await client.post("/translate", content=part.replace(b"\\ud800", b"\xc3\xa9"), headers=headers)
        assert "charset" not in answer.text


@pytest.mark.parametrize("body", [b'{"q": ' + b"[" * 10_000, b'{"api_key": "\\ud800"}', b'{"api_key": "\xed\xa0\x80"}'])
@pytest.mark.parametrize("with_keys", [False, True])
async def test_json_that_cannot_be_read_is_refused(
    connect: Connect, tmp_path: Path, body: bytes, with_keys: bool
) -> None:
    answer = await connect(**_keys(tmp_path) if with_keys else {}).post("/translate", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("api_key: " if with_keys else "body: ")


def _keys(directory: Path) -> dict[str, object]:
    path = directory / "keys.db"
    with closing(KeyStore(path, create=True)):
        return {"keys": path}
