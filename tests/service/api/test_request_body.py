"""Bodies of many fields, and what is left of one that is refused."""

import json
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import Request

from service.api.context import ServiceContext
from service.api.request_body import parse_body, read_form
from service.api.translate_request import TranslateRequest
from service.errors import InvalidRequest, TooLong
from service.text.glossary import MAX_ENTRIES


def _request(body: bytes, kind: str) -> Request:
    """Build a request to a server that takes seven texts."""

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body}

    service = Mock(
        spec=ServiceContext, translator=SimpleNamespace(limits=SimpleNamespace(max_texts=7, max_characters=1000))
    )
    app = SimpleNamespace(state=SimpleNamespace(service=service))
    headers = [(b"content-type", kind.encode())]
    return Request({"type": "http", "app": app, "headers": headers, "query_string": b""}, receive)


def _form(texts: int, *, multipart: bool) -> Request:
    fields = {"q": ["a"] * texts}
    if multipart:
        sent = httpx.Request("POST", "http://a", files=[("q", (None, text)) for text in fields["q"]])
        return _request(sent.read(), sent.headers["Content-Type"])
    return _request(urlencode(fields, doseq=True).encode(), "application/x-www-form-urlencoded")


def _json(body: object) -> Request:
    return _request(json.dumps(body).encode(), "application/json")


@pytest.mark.parametrize("multipart", [False, True])
async def test_a_form_has_as_many_fields_as_texts_are_taken_and_some(multipart: bool) -> None:
    """Each takes its time, and nobody is served meanwhile."""
    assert await read_form(_form(107, multipart=multipart)) == {"q": ["a"] * 107}
    with pytest.raises(InvalidRequest, match=r"107"):
        await read_form(_form(108, multipart=multipart))


@pytest.mark.parametrize("letter", ["A", "é", "猫", "🐈"])
@pytest.mark.parametrize("escaped", [False, True])
async def test_a_form_is_measured_by_characters_before_it_is_parsed(letter: str, escaped: bool) -> None:
    sent = "".join(f"%{byte:02X}" for byte in letter.encode()) if escaped else letter
    taken = _request(f"q={sent * 9_000}".encode(), "application/x-www-form-urlencoded")
    assert await read_form(taken) == {"q": letter * 9_000}
    refused = _request(f"q={sent * 10_000}".encode(), "application/x-www-form-urlencoded")
    with pytest.raises(TooLong, match=r"^body: the form is larger than one with 1000 characters can be"):
        await read_form(refused)


@pytest.mark.parametrize("field", ["glossary", "context"])
async def test_a_form_with_a_long_field_may_be_longer(field: str) -> None:
    fields = {"q": "A cat.", field: "chat=cat\n" * 20_000}
    body = urlencode(fields).encode()
    assert await read_form(_request(body, "application/x-www-form-urlencoded")) == fields


async def test_json_has_as_many_values_as_a_form_and_a_glossary() -> None:
    fields = {"source": "en", "target": "fr", "glossary": {str(i): "b" for i in range(MAX_ENTRIES)}}
    most = await parse_body(_json({**fields, "q": ["a"] * 103}), TranslateRequest)
    assert len(most.q) == 103
    with pytest.raises(TooLong, match=f"^body: more than {MAX_ENTRIES + 107} values: "):
        await parse_body(_json({**fields, "q": ["a"] * 104}), TranslateRequest)


@pytest.mark.parametrize("wrong", [{"q": 1}, {"glossary": {str(i): "b" for i in range(MAX_ENTRIES + 1)}}])
async def test_a_refusal_does_not_keep_what_was_sent(wrong: dict[str, Any]) -> None:
    """Objects of a refused body would fragment the memory until the response is sent."""
    body = {"q": "Hi.", "source": "en", "target": "fr", **wrong}
    with pytest.raises(InvalidRequest) as refusal:
        await parse_body(_json(body), TranslateRequest)
    assert refusal.value.__context__ is None


async def test_of_ten_thousand_problems_a_refusal_keeps_few() -> None:
    request = _json({"q": "Hi.", "source": "en", "target": "fr", "glossary": {str(i): " " for i in range(MAX_ENTRIES)}})
    before = sys.getallocatedblocks()
    with pytest.raises(InvalidRequest) as refusal:
        await parse_body(request, TranslateRequest)
    assert sys.getallocatedblocks() - before < MAX_ENTRIES
    assert refusal.value.message.startswith("glossary.0")
