"""Bad input is answered clearly, whatever it is."""

import gzip
import json

import httpx
import pytest

from tests.system.answers import translate

_MEANT = "beam_sise: no such field; did you mean beam_size?"
BAD_REQUESTS = [
    ("wrong JSON", b'{"q": "a"', 400, "body: invalid JSON"),
    ("not an object", b'["a"]', 400, "body: "),
    ("missing field", b'{"q": "a", "source": "en"}', 400, "target: field required"),
    ("q is a number", b'{"q": 1, "source": "en", "target": "fr"}', 400, "q: must be a string or an array"),
    ("unknown field", b'{"q": "a", "source": "en", "target": "fr", "beams": 4}', 400, "beams: no such field"),
    ("a typo", b'{"q": "a", "source": "en", "target": "fr", "beam_sise": 4}', 400, _MEANT),
    ("no body", b"", 400, "body: is empty"),
    ("bool for number", b'{"q": "a", "source": "en", "target": "fr", "top_k": true}', 400, "top_k: "),
    ("unknown source", b'{"q": "a", "source": "xx", "target": "fr"}', 400, "source: xx is not supported"),
    ("unknown target", b'{"q": "a", "source": "en", "target": "xx"}', 400, "target: xx is not supported"),
    ("invalid UTF-8", b'{"q": "\xff\xfe", "source": "en", "target": "fr"}', 400, "body: invalid JSON: invalid unicode"),
    ("lone surrogate", b'{"q": "\\ud800", "source": "en", "target": "fr"}', 400, "body: invalid JSON"),
    ("100,000 characters", json.dumps({"q": "a cat " * 16_667, "source": "en", "target": "fr"}).encode(), 413, "q: "),
    ("too many texts", json.dumps({"q": ["a"] * 2000, "source": "en", "target": "fr"}).encode(), 413, "q: 2000 texts"),
    ("many values", b'{"q": [' + b"[]," * 600_000, 413, "body: more than 11124 values: texts, "),
    ("huge body", b'{"q": "' + b" " * 3_000_000 + b'"}', 413, "body: more than 2000000 bytes"),
    ("top_k of 2^63", b'{"q": "a", "source": "en", "target": "fr", "top_k": 9223372036854775808}', 400, "top_k: "),
    (
        "a glossary's empty term",
        b'{"q": "a", "source": "en", "target": "fr", "glossary": {"": "b"}}',
        400,
        "glossary: name of an entry: must not be blank",
    ),
    ("no deadline", b'{"q": "a", "source": "en", "target": "fr", "timeout_seconds": 0}', 400, "timeout_seconds: "),
]


@pytest.mark.parametrize(
    ("body", "status", "error"), [case[1:] for case in BAD_REQUESTS], ids=[c[0] for c in BAD_REQUESTS]
)
async def test_bad_input_is_answered_clearly(client: httpx.AsyncClient, body: bytes, status: int, error: str) -> None:
    response = await client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == status
    assert response.json().get("detail", response.json()["error"]).startswith(error)
    assert response.json()["code"] == {400: "invalid_request", 413: "too_long"}[status]
    assert await translate(client, "I see a cat.") == "Je vois un chat."


async def test_json_without_its_content_type_is_answered_with_the_header_to_send(client: httpx.AsyncClient) -> None:
    """The type is what curl declares for `-d` unless a header is given."""
    body, headers = b'{"q": "a", "source": "en", "target": "fr"}', {"Content-Type": "application/x-www-form-urlencoded"}
    for path in ("/translate", "/detect", "/v2/translate"):
        response = await client.post(path, content=body, headers=headers)
        assert response.status_code == 400
        assert "send Content-Type: application/json" in response.text


async def test_a_compressed_body_is_refused(client: httpx.AsyncClient) -> None:
    body = b'{"q": "a", "source": "en", "target": "fr"}'
    for path in ("/translate", "/detect", "/v2/translate", "/v1/chat/completions"):
        response = await client.post(path, content=gzip.compress(body), headers={"Content-Encoding": "gzip"})
        assert response.status_code == 400
        assert "Content-Encoding: gzip is not accepted: send the body uncompressed" in response.text


async def test_a_megabyte_of_wrong_fields_is_not_repeated(client: httpx.AsyncClient) -> None:
    fields = {f"field{i}{'x' * 90}": 1 for i in range(9000)}
    for options in ({"json": fields}, {"data": fields}):
        response = await client.post("/translate", **options)  # type: ignore[arg-type]
        assert response.status_code == 400
        assert len(response.content) < 1000


async def test_other_wrong_requests(client: httpx.AsyncClient) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    cases = [
        (await client.post("/translate", content=b"q=%ff&source=en&target=fr", headers=form), 400, "body: "),
        (await client.post("/translate", content=b"q", headers={"Content-Type": "text/csv"}), 400, "Content-Type: "),
        (await client.get("/translate/stream", params={"q": "a"}), 400, "source: field required"),
        (await client.get("/translate"), 405, "Method Not Allowed: use POST; for GET there is /translate/stream"),
        (
            await client.get("/translate/stream", params={"q": "a", "beam_sise": 4}),
            400,
            "source: field required; target",
        ),
        (
            await client.get("/translate/stream", params={"q": "a", "source": "en", "target": "fr", "beam_sise": 4}),
            400,
            _MEANT,
        ),
        (await client.put("/openapi.json"), 405, "Method Not Allowed"),
        (await client.delete("/web/page.js"), 405, "Method Not Allowed"),
        (await client.post("/"), 405, "Method Not Allowed"),
        (await client.get("/nowhere"), 404, "Not Found"),
    ]
    for response, status, error in cases:
        assert (response.status_code, response.json()["error"][: len(error)]) == (status, error)


@pytest.mark.parametrize("last", ["x", "9" * 5000, "1-", "-00c0ffee", "1-00c0ffee.", "1 -00c0ffee", f"1-{'A' * 25}"])
async def test_what_is_not_an_event_s_id_is_refused(client: httpx.AsyncClient, last: str) -> None:
    query = {"q": "a", "source": "en", "target": "fr"}
    response = await client.get("/translate/stream", params=query, headers={"Last-Event-ID": last})
    assert (response.status_code, response.json()["error"][:15]) == (400, "Last-Event-ID: ")


async def test_a_path_may_end_with_a_slash(client: httpx.AsyncClient) -> None:
    body = {"q": "I see a cat.", "source": "en", "target": "fr"}
    for path in ("/translate/", "/translate//"):
        response = await client.post(path, json=body)
        assert (response.status_code, response.json()) == (200, {"translatedText": "Je vois un chat."})
    assert (await client.get("/docs/")).status_code == (await client.get("/docs")).status_code == 200
