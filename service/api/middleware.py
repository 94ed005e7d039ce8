"""Pure ASGI middleware: Starlette's `BaseHTTPMiddleware` would hide disconnects from streams."""

import logging
import re
import secrets
import time
from collections.abc import Collection
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.error_handlers import answer
from service.errors import ServiceError, TooLong
from service.observability.metrics import Metrics

logger = logging.getLogger("dragoman.requests")

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# Polled all the time; one line each would drown the rest.
UNLOGGED: Final = frozenset({"/livez", "/readyz", "/health", "/metrics"})


class RequestObservation:
    """Gives every request an id, one outcome, one log line (never its text or key) and one count.

    Handlers leave `outcome` in the request's state when the status does not tell it.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 0
        started = time.monotonic()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            seconds = time.monotonic() - started
            outcome = state.get("outcome") or ("ok" if 200 <= status < 400 else "error")
            route = getattr(scope.get("route"), "path", "unmatched")
            self._metrics.request_finished(route, outcome, seconds)
            if route not in UNLOGGED:
                fields = {"request_id": request_id, "method": scope["method"], "route": route, "status": status}
                fields |= {name: state[name] for name in ("key_name", "trace_id") if name in state}
                logger.info("request", extra=fields | {"outcome": outcome, "seconds": round(seconds, 4)})


def _request_id(scope: Scope) -> str:
    """The caller's `X-Request-ID` if it is harmless, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return secrets.token_hex(8)


class UnexpectedErrors:
    """Our own bugs: logged, and answered like every other error where nothing has been answered yet.

    Inside of the CORS middleware, without whose headers a browser's page would not learn of the answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answered = False

        async def send_noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except Exception:
            if scope["type"] != "http":
                raise
            request = Request(scope)
            logger.exception("unexpected error", extra={"request_id": request.state.request_id})
            response = answer(request, ServiceError("internal error"))
            if not answered:
                await response(scope, receive, send)


class HeadAsGet:
    """Answers HEAD like GET, without the body; not on the paths of `unless`, whose answers are work."""

    def __init__(self, app: ASGIApp, unless: Collection[str]) -> None:
        self._app = app
        self._unless = unless

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"] in self._unless:
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        # The server, and who logs, are to know what it was.
        as_get = {**scope, "method": "GET"}
        try:
            await self._app(as_get, receive, send_without_body)
        finally:
            scope["route"] = as_get.get("route")


class BodyLimit:
    """Raises `TooLong` to whoever reads more than `limit` bytes of a body, declared or not."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def limited_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                raise TooLong("body", f"more than {self._limit} bytes")
            return message

        await self._app(scope, limited_receive, send)
