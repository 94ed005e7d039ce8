"""The application: routes and middleware around what `composition` builds."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute

from service.api import (
    documents,
    error_handlers,
    languages,
    live,
    openapi,
    operations,
    page,
    suggestions,
    translate,
    uploads,
)
from service.api.compat import chat, whisperlivekit
from service.api.compat import table as compat
from service.api.context import ServiceContext
from service.api.deepl import documents as deepl_documents
from service.api.deepl import glossaries, multilingual
from service.api.deepl import translate as deepl
from service.api.middleware import (
    UNIX,
    UNLOGGED,
    BodyLimit,
    HeadAsGet,
    RequestObservation,
    TrailingSlash,
    TrustedProxies,
    UnexpectedErrors,
)
from service.errors import EngineFailed
from service.observability import tracing
from service.observability.tracing import RequestTracing
from service.server.composition import VERSION, build_service
from service.settings import Networks, Settings, UnusableSettingError
from service.supervisor.fork_server import Zygote

logger = logging.getLogger(__name__)
_log_failure: Final = partial(logger.error, "cannot start: %s")
_log_ready: Final = partial(logger.info, "ready")

_IPV4: Final = 4
LEAST_BODY_BYTES: Final = 2_000_000
"""The limit of a request's body is never less: a body holds glossaries and options, too."""
_BYTES_PER_CHARACTER: Final = 12
"""The most that one takes, in a form with four bytes escaped."""
_TRANSLATING_GET: Final = ("/translate/stream", "/v2/translate", *(each.path for each in compat.BODIES))
"""Paths whose GET translates: a HEAD would be charged for nothing."""

_TRANSLATING: Final = (translate, live, languages, deepl, documents, deepl_documents, compat, chat, whisperlivekit)
_OTHERS: Final = (suggestions, glossaries, multilingual, operations, page)
"""Modules whose routes the application has, without translating."""


def create_app(
    settings: Settings,
    on_failure: Callable[[str], None] = _log_failure,
    on_ready: Callable[[], None] = _log_ready,
    zygote: Zygote | None = None,
) -> FastAPI:
    """Build the application. Raises `CheckpointError` and `UnusableSettingError`.

    `on_ready` is called when a model has answered, and `on_failure` with the reason when no model can be used, which no
    restart would mend. Engines are forks of the `zygote`, if there is one already.
    """
    tracer_provider = tracing.provider(VERSION) if settings.traces else None
    service = build_service(settings, zygote)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            service.documents.start()
        except OSError as error:
            raise UnusableSettingError(f"documents: {error}") from None
        service.library.start()
        waiting = asyncio.create_task(_become_ready(service, on_failure, on_ready))
        following = asyncio.create_task(service.memory.follow())
        yield
        waiting.cancel()
        following.cancel()
        await asyncio.gather(waiting, following, return_exceptions=True)
        await service.documents.stop()
        await service.library.stop()
        await service.access.aclose()
        if tracer_provider is not None:
            await asyncio.to_thread(tracer_provider.shutdown)  # sends the remaining spans

    app = FastAPI(
        title="Dragoman",
        version=VERSION,
        summary="Self-hosted machine translation that streams",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own viewer is loaded from another host; ours is in `api.page`
        redoc_url=None,
        redirect_slashes=False,  # `TrailingSlash` serves such a path itself
        # Newer versions trace requests themselves, with the whole URL, which may hold texts and keys.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = service
    app.state.cors_origins = settings.cors_origins
    for module in (*_TRANSLATING, *_OTHERS):
        app.include_router(module.router)
    _expect_requests(service)
    error_handlers.install(app)
    openapi.install(app, key_required=service.access.key_required)
    _add_middleware(app, settings, service)
    if tracer_provider is not None:
        app.add_middleware(RequestTracing, made=tracer_provider, untraced=UNLOGGED)
    trusted = [*_hosts(settings.trusted_proxies), *([UNIX] if settings.uds is not None else [])]
    if trusted:
        paths = [getattr(each, "path", "") for module in (*_TRANSLATING, *_OTHERS) for each in module.router.routes]
        app.add_middleware(TrustedProxies, trusted_hosts=trusted, paths=paths)
    return app


def _expect_requests(service: ServiceContext) -> None:
    """Make the metrics of each route that translates, so that they are 0 before its first request."""
    for route in (route for module in _TRANSLATING for route in module.router.routes):
        if isinstance(route, APIRoute):
            service.metrics.expect_requests(route.path)


def _add_middleware(app: FastAPI, settings: Settings, service: ServiceContext) -> None:
    """Add what every request passes; what is added last is passed first."""
    app.add_middleware(TrailingSlash)
    app.add_middleware(HeadAsGet, unless=(*_TRANSLATING_GET, *documents.DOWNLOADS))
    limit = max(LEAST_BODY_BYTES, _BYTES_PER_CHARACTER * settings.max_characters)
    limits = dict.fromkeys(uploads.PATHS, settings.max_document_bytes + uploads.FORM_BYTES)
    app.add_middleware(BodyLimit, limit=limit, uploads=limits)
    app.add_middleware(UnexpectedErrors)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=("*",),
            expose_headers=("Retry-After", "X-Request-ID"),
            allow_private_network=True,  # from a page of the internet to a server at home
        )
    app.add_middleware(RequestObservation, metrics=service.metrics)


def _hosts(networks: Networks) -> list[str]:
    """List networks as configured, and those of IPv4 also as a dual-stack socket shows them: ::ffff:10.1.2.3."""
    mapped = (f"::ffff:{each.network_address}/{96 + each.prefixlen}" for each in networks if each.version == _IPV4)
    return [*map(str, networks), *mapped]


async def _become_ready(
    service: ServiceContext, on_failure: Callable[[str], None], on_ready: Callable[[], None]
) -> None:
    try:
        await service.library.wait_until_tried()
    except EngineFailed as error:
        on_failure(error.message)
    else:
        on_ready()
