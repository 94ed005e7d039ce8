"""The door of a real server: what is refused before the application sees it, byte by byte."""

import json
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

import httpx
import pytest

from service.server.connection import MAX_HEAD_BYTES
from tests.system.conftest import Server

_LINE = 4  # a header's colon, space and line end
_PATH = b"/livez"


class _Answer(NamedTuple):
    status: int
    head: str
    body: bytes

    @property
    def code(self) -> str:
        code: str = json.loads(self.body)["code"]
        return code


def _ask(server: Server, request: bytes, piece: int | None = None) -> _Answer:
    """Send bytes, at once or in pieces, and read the answer up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=30) as connection:
        for start in range(0, len(request), piece or len(request)):
            try:
                connection.sendall(request[start : start + (piece or len(request))])
            except ConnectionError:
                break
            if piece:
                time.sleep(0.001)
        received = b""
        while data := _received(connection):
            received += data
    head, _, body = received.partition(b"\r\n\r\n")
    return _Answer(int(head.split()[1]), head.decode().lower(), body)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:  # it was refused while it still sent
        return b""


def _head(path: bytes, *headers: bytes, version: bytes = b"1.1") -> bytes:
    return b"GET " + path + b" HTTP/" + version + b"\r\n" + b"".join(each + b"\r\n" for each in headers) + b"\r\n"


def _one_header(size: int) -> bytes:
    rest = size - len(_PATH) - len("Hosta") - _LINE - len("Connectionclose") - _LINE - len("X") - _LINE
    return _head(_PATH, b"Host: a", b"Connection: close", b"X: " + b"y" * rest)


def _many_headers(size: int) -> bytes:
    rest = size - len(_PATH) - len("Hosta") - _LINE - len("Connectionclose") - _LINE
    count, left = divmod(rest, 100)
    lines = [b"X: " + b"y" * 95] * (count - 1) + [b"X: " + b"y" * (95 + left)]
    return _head(_PATH, b"Host: a", b"Connection: close", *lines)


def _long_url(size: int) -> bytes:
    rest = size - len(_PATH) - 1 - len("Hosta") - _LINE - len("Connectionclose") - _LINE
    return _head(_PATH + b"?" + b"y" * rest, b"Host: a", b"Connection: close")


def _trailers(size: int) -> bytes:
    body = json.dumps({"q": "I see a cat.", "source": "en", "target": "fr"}).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    return head + chunks + b"X: " + b"y" * (size - 1 - _LINE) + b"\r\n\r\n"


@pytest.mark.parametrize("build", [_one_header, _many_headers, _long_url, _trailers])
@pytest.mark.parametrize("piece", [None, 5000], ids=["in one send", "in pieces"])
def test_the_size_of_headers_and_trailers_is_counted_exactly(
    server: Server, build: Callable[[int], bytes], piece: int | None
) -> None:
    assert _ask(server, build(MAX_HEAD_BYTES), piece).status == 200
    for size in (MAX_HEAD_BYTES + 1, 200_000):
        refused = _ask(server, build(size), piece)
        assert (refused.status, refused.code) == (431, "too_long")
        assert json.loads(refused.body)["error"] == "headers: more than 65536 bytes"


def test_a_large_head_after_another_request_is_refused_too(server: Server) -> None:
    first = _head(_PATH, b"Host: a")
    assert _ask(server, first + _one_header(MAX_HEAD_BYTES + 1)).status == 431
    assert b"HTTP/1.1 200" in _ask(server, first + _one_header(MAX_HEAD_BYTES)).body


@pytest.mark.parametrize("hosts", [(), (b"Host: a", b"Host: b"), (b"Host: a", b"Host: a")])
def test_there_is_exactly_one_host(server: Server, hosts: tuple[bytes, ...]) -> None:
    refused = _ask(server, _head(_PATH, *hosts))
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert json.loads(refused.body)["error"] == "Host: there must be exactly one header"


def test_what_is_no_http_is_refused_in_the_same_form(server: Server) -> None:
    refused = _ask(server, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert (refused.status, refused.code) == (400, "invalid_request")


@pytest.mark.parametrize("hosts", [(), (b"Host: a",)])
def test_http_1_0_is_answered_without_chunks(server: Server, hosts: tuple[bytes, ...]) -> None:
    whole = _ask(server, _head(b"/livez", *hosts, version=b"1.0"))
    assert (whole.status, json.loads(whole.body)) == (200, {"status": "ok"})
    streamed = _ask(server, _head(b"/translate/stream?q=I+see+a+cat.&source=en&target=fr", *hosts, version=b"1.0"))
    assert streamed.status == 200
    assert "transfer-encoding" not in streamed.head
    assert "connection: close" in streamed.head
    assert streamed.body.startswith(b"id: 0\r\nevent: start\r\n")
    assert b"event: done" in streamed.body
    assert not streamed.body.endswith(b"0\r\n\r\n")


async def test_a_url_that_is_not_utf_8_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.get("/translate/stream?q=a%ff&source=en&target=fr")
    assert (response.status_code, response.json()) == (
        400,
        {"error": "URL: is not valid UTF-8", "code": "invalid_request"},
    )


def test_a_body_that_is_declared_too_long_is_refused_before_it_is_sent(server: Server) -> None:
    """The client may send `Expect: 100-continue`: then it waits for leave to send it."""
    head = (
        b"POST /translate HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2000001"
    )
    refused = _ask(server, head + b"\r\n\r\n")
    assert (refused.status, refused.code) == (413, "too_long")
