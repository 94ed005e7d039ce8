"""Forms of many fields."""

from types import SimpleNamespace
from unittest.mock import Mock
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import Request

from service.api.bodies import read_form
from service.errors import InvalidRequest
from service.state import Service


def _request(texts: int, *, multipart: bool) -> Request:
    """To a server that takes seven texts."""
    fields = {"q": ["a"] * texts}
    if multipart:
        sent = httpx.Request("POST", "http://a", files=[("q", (None, text)) for text in fields["q"]])
        body, kind = sent.read(), sent.headers["Content-Type"]
    else:
        body, kind = urlencode(fields, doseq=True).encode(), "application/x-www-form-urlencoded"

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body}

    service = Mock(spec=Service, translator=SimpleNamespace(limits=SimpleNamespace(max_texts=7)))
    app = SimpleNamespace(state=SimpleNamespace(service=service))
    return Request({"type": "http", "app": app, "headers": [(b"content-type", kind.encode())]}, receive)


@pytest.mark.parametrize("multipart", [False, True])
async def test_a_form_has_as_many_fields_as_texts_are_taken_and_some(multipart: bool) -> None:
    """Each takes its time, and nobody is served meanwhile."""
    assert await read_form(_request(107, multipart=multipart)) == {"q": ["a"] * 107}
    with pytest.raises(InvalidRequest, match=r"107"):
        await read_form(_request(108, multipart=multipart))
