"""The middleware of the API. Pure ASGI, because Starlette's `BaseHTTPMiddleware` hides disconnects from streams."""

import logging
import re
import secrets
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from service.api.error_handlers import answer
from service.errors import ServiceError, TooLong, is_error
from service.observability.metrics import Metrics

logger = logging.getLogger("dragoman.requests")

_FORWARDED: Final = frozenset({b"x-forwarded-prefix", b"x-forwarded-host"})
# Without `..`: addresses would leave the path that the proxy has given us.
_PREFIX: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]{1,64}){1,8}")
_HOST: Final = re.compile(r"[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::[0-9]{1,5})?")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
UNIX: Final = "unix"
"""The client's address on a Unix socket, where it has none."""
_SWITCHING_PROTOCOLS: Final = 101
# Probes poll these paths all the time: their log lines would drown all others.
UNLOGGED: Final = frozenset({"/livez", "/readyz", "/health", "/metrics"})


class TrailingSlash:
    """Middleware that serves `/translate/` as `/translate`; with a redirect, many clients would lose the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["path"] = scope["path"].rstrip("/") or "/"
        await self._app(scope, receive, send)


class TrustedProxies(ProxyHeadersMiddleware):
    """Middleware that takes a request's client, scheme, host and path prefix from the headers of trusted proxies.

    Uvicorn's middleware does so for the client and the scheme. A malformed host or prefix is ignored.
    """

    def __init__(self, app: Any, trusted_hosts: list[str], paths: Collection[str]) -> None:
        """`paths` are those of the application."""
        super().__init__(app, trusted_hosts)
        self._paths = paths

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan" and scope.get("client") is None:
            scope["client"] = (UNIX, 0)
        if scope["type"] == "http" and scope["client"][0] in self.trusted_hosts:
            forwarded = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _FORWARDED}
            if _PREFIX.fullmatch(prefix := forwarded.get(b"x-forwarded-prefix", "").rstrip("/")):
                scope["root_path"] = prefix
                # Starlette would take a path of ours for the prefix, which the proxy has taken away.
                is_own = any(each.startswith(prefix) for each in self._paths)
                if is_own and f"{scope['path']}/".startswith(f"{prefix}/"):
                    scope["path"] = prefix + scope["path"]
            if _HOST.fullmatch(host := forwarded.get(b"x-forwarded-host", "").strip()):
                others = [header for header in scope["headers"] if header[0] != b"host"]
                scope["headers"] = [(b"host", host.encode()), *others]
        await super().__call__(scope, receive, send)


class RequestObservation:
    """Middleware that gives each request an id, an outcome, one log line (never its text or key) and one count.

    Handlers set `outcome` in the request's state if the status does not determine it; `status` is there once a response
    has begun.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        started = time.monotonic()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            elif message["type"] == "websocket.accept":
                state["status"] = _SWITCHING_PROTOCOLS
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            seconds = time.monotonic() - started
            status = state.get("status", 0)
            outcome = state.get("outcome") or ("ok" if _SWITCHING_PROTOCOLS <= status < 400 else "error")
            route = getattr(scope.get("route"), "path", "unmatched")
            self._metrics.request_finished(route, outcome, seconds)
            if route not in UNLOGGED:
                fields = {
                    "request_id": request_id,
                    "method": scope.get("method", "GET"),
                    "route": route,
                    "status": status,
                }
                fields |= {name: state[name] for name in ("key_name", "trace_id") if name in state}
                logger.info("request", extra=fields | {"outcome": outcome, "seconds": round(seconds, 4)})


def _request_id(scope: Scope) -> str:
    """Return the client's `X-Request-ID` if it is well-formed, else a new id."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return secrets.token_hex(8)


class UnexpectedErrors:
    """Middleware for our own bugs: it logs them, and answers `internal_error` if no response has begun.

    It is inside the CORS middleware: without CORS headers, a browser would not show the response to its page.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except BaseException as error:
            if scope["type"] != "http" or not is_error(error):
                raise
            request = Request(scope)
            logger.exception("unexpected error", extra={"request_id": request.state.request_id})
            response = answer(request, ServiceError("internal error"))
            if not _has_begun(scope):
                await response(scope, receive, send)


class HeadAsGet:
    """Middleware that answers HEAD like GET without a body, except on paths that begin with one of `unless`.

    On those, GET translates, or deletes what it returns.
    """

    def __init__(self, app: ASGIApp, unless: Collection[str]) -> None:
        self._app = app
        self._unless = tuple(unless)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].startswith(self._unless):
            await self._app(scope, receive, send)
            return

        # In a copy of the scope: the log must see HEAD, and so must uvicorn, which then sends no body.
        as_get = {**scope, "method": "GET"}
        try:
            await self._app(as_get, receive, send)
        finally:
            scope["route"] = as_get.get("route")


class BodyLimit:
    """Middleware that raises `TooLong` for a body of more than `limit` bytes.

    A declared length above the limit is refused before the body is read; a body without one, as soon as it is too
    long. After the response has begun, the rest of a body is neither kept nor counted. `uploads` maps paths to other
    limits.
    """

    def __init__(self, app: ASGIApp, limit: int, uploads: Mapping[str, int]) -> None:
        self._app = app
        self._limit = limit
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0
        limit = self._uploads.get(scope.get("path", ""), self._limit)

        async def limited_receive() -> Message:
            nonlocal received
            if _declared_length(scope) > limit and not _has_begun(scope):
                raise TooLong("body", f"more than {limit} bytes")
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit and not _has_begun(scope):
                raise TooLong("body", f"more than {limit} bytes")
            return message

        await self._app(scope, limited_receive, send)


def _has_begun(scope: Scope) -> bool:
    """Return True once the response has begun, by the note of `RequestObservation`."""
    return "status" in scope.get("state", ())


def _declared_length(scope: Scope) -> int:
    """Return the `Content-Length`, which the HTTP parser has checked; 0 without the header."""
    return next((int(value) for name, value in scope.get("headers", ()) if name == b"content-length"), 0)
