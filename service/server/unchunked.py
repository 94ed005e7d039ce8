"""Responses for clients of HTTP/1.0, to which RFC 9112 (section 6.1) forbids the chunks that uvicorn sends."""

from typing import Final

from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_LENGTH: Final = b"content-length"


class Unchunked:
    """An ASGI application whose response of unknown length ends with the connection."""

    def __init__(self, app: ASGI3Application, cycle: RequestResponseCycle) -> None:
        """`cycle` is uvicorn's state of the response."""
        self._app = app
        self._cycle = cycle

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        cycle, has_length = self._cycle, True

        async def send_unchunked(message: ASGISendEvent) -> None:
            nonlocal has_length
            if message["type"] == "http.response.start":
                has_length = any(name.lower() == _LENGTH for name, _ in message.get("headers", ()))
                if not has_length:
                    cycle.chunked_encoding = False
            elif message["type"] == "http.response.body" and not has_length:
                # Uvicorn compares the length of the body with the declared one.
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, send_unchunked)
