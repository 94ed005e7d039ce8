"""Length-prefixed msgpack frames over a socket: the engine's blocking end, and the framing of both."""

import select
import socket
from typing import Final

import msgspec

from service.engine.messages import Command, Report

_HEADER_BYTES: Final = 4
_READ_BYTES: Final = 1 << 16


def frame(message: object) -> bytes:
    """Return a message after its length (4 bytes, big-endian)."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_HEADER_BYTES, "big") + body


_encoder = msgspec.msgpack.Encoder()


class Frames:
    """Cuts a byte stream back into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bodies of all messages complete so far."""
        self._buffer += data
        bodies = []
        start = 0
        while len(self._buffer) - start >= _HEADER_BYTES:
            end = start + _HEADER_BYTES + int.from_bytes(self._buffer[start : start + _HEADER_BYTES], "big")
            if end > len(self._buffer):
                break
            bodies.append(bytes(self._buffer[start + _HEADER_BYTES : end]))
            start = end
        del self._buffer[:start]
        return bodies


class SocketChannel:
    """An engine process's end of a stream socket. No thread: a busy one would slow every step."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._frames = Frames()
        self._decoder = msgspec.msgpack.Decoder(Command)

    def receive(self, *, wait: bool) -> list[Command] | None:
        """Commands that have arrived, at least one if `wait`; None when the HTTP process is gone."""
        commands: list[Command] = []
        while select.select([self._socket], [], [], None if wait and not commands else 0)[0]:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                return None
            commands += map(self._decoder.decode, self._frames.feed(data))
        return commands

    def send(self, report: Report) -> None:
        """Blocks while the HTTP process does not read, which is the backpressure we want. Raises ConnectionError."""
        self._socket.sendall(frame(report))
