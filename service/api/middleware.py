"""Pure ASGI middleware: Starlette's `BaseHTTPMiddleware` would hide disconnects from streams."""

import logging
import re
import secrets
import time
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import ServiceError, TooLong
from service.metrics import Metrics

logger = logging.getLogger("dragoman.requests")

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# Polled all the time; one line each would drown the rest.
_UNLOGGED: Final = frozenset({"/livez", "/readyz", "/health", "/metrics"})


class RequestObservation:
    """Gives every request an id, one outcome, one log line (never its text) and one count.

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
        except Exception:
            logger.exception("unexpected error", extra={"request_id": request_id})
            state["outcome"] = ServiceError.code
            if not status:
                body = {"error": "internal error", "code": ServiceError.code}
                await JSONResponse(body, ServiceError.status)(scope, receive, send_with_id)
        finally:
            seconds = time.monotonic() - started
            outcome = state.get("outcome") or ("ok" if 200 <= status < 400 else "error")
            route = getattr(scope.get("route"), "path", "unmatched")
            self._metrics.request_finished(route, outcome, seconds)
            if route not in _UNLOGGED:
                fields = {"request_id": request_id, "method": scope["method"], "route": route, "status": status}
                logger.info("request", extra=fields | {"outcome": outcome, "seconds": round(seconds, 4)})


def _request_id(scope: Scope) -> str:
    """The caller's `X-Request-ID` if it is harmless, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return secrets.token_hex(8)


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
