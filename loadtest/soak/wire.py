"""HTTP by hand, for clients that no library would be: rude, slow, stuck, gone."""

import asyncio
import json
import secrets
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

_HOST: Final = "127.0.0.1"
_SMALL: Final = 2048
"""Bytes of a slow reader's buffers, so that its slowness is felt at the other end."""


class Answer(NamedTuple):
    """The data received until the connection was closed; status 0 if there was none, or no HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def outcome(self) -> str:
        """Return `ok`, an error's code, or `cut` for a response without an end."""
        if not self.status:
            return "cut"
        if "event-stream" in self.headers.get("content-type", ""):
            if b"event: done\r\n" in self.body:
                return "ok"
            return _code(self.body.partition(b"event: error\r\ndata: ")[2].partition(b"\r\n")[0])
        return "ok" if self.status == 200 else _code(self.body)

    @property
    def translation(self) -> str | None:
        """Return the whole text of a stream that ended in `done`."""
        # Whole events are sent at once, so no chunk ends inside of a line.
        line = self.body.partition(b"event: done\r\ndata: ")[2].partition(b"\r\n")[0]
        return str(json.loads(line)["translatedText"]) if line else None


def _code(body: bytes) -> str:
    try:
        return str(json.loads(body)["code"])
    except (ValueError, KeyError, TypeError):
        return "cut"


def new_id() -> str:
    """Return an id for `X-Request-ID`, which the server's log then has, too."""
    return secrets.token_hex(8)


def post(body: dict[str, Any], request_id: str) -> bytes:
    """Return the bytes of a request after which the server closes the connection."""
    content = json.dumps(body).encode()
    head = (
        f"POST /translate HTTP/1.1\r\nHost: {_HOST}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"X-Request-ID: {request_id}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def begun(self) -> bytes:
        """Return the data received until the first event of a stream, or until its end."""
        data = b""
        while b"event: " not in data and (piece := await self.reader.read(1 << 16)):
            data += piece
        return data

    async def answer(self, seconds: float, begun: bytes = b"") -> Answer:
        """Read to the end, at most for `seconds`; return what came."""
        data = bytearray(begun)
        try:
            async with asyncio.timeout(seconds):
                while piece := await self.reader.read(1 << 16):
                    data += piece
        except (TimeoutError, OSError):
            pass
        return parse(bytes(data))

    def abort(self) -> None:
        """Close the connection by a reset, not in order."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def parse(data: bytes) -> Answer:
    """Parse a response, complete or not; chunk sizes stay in the body."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if not version.startswith("HTTP/1.") or not status[:3].isdigit():
        return Answer(0, {}, data)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    return Answer(int(status[:3]), headers, body)


@asynccontextmanager
async def connect(port: int, *, slow: bool = False) -> AsyncIterator[Connection]:
    """Open a connection for the context; a slow one has next to no buffer."""
    plain = socket.socket()
    plain.setblocking(False)
    if slow:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
    try:
        await asyncio.get_running_loop().sock_connect(plain, (_HOST, port))
        reader, writer = await asyncio.open_connection(sock=plain, limit=_SMALL if slow else 1 << 16)
    except OSError:
        plain.close()
        raise
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()
