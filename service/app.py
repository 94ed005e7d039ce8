"""The composition root: settings -> checkpoint -> engines -> translator -> routes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from msgspec.structs import replace

from model.manifest import CheckpointConfig, load_config, load_tokenizer
from service.api import deepl, errors, operations, page, translate
from service.api.middleware import BodyLimit, RequestObservation
from service.engine.pool import EnginePool
from service.engine.process import EngineProcess
from service.engine.request import EngineOptions
from service.errors import ServiceError
from service.importing import imported
from service.metrics import Metrics
from service.settings import Settings
from service.state import Service
from service.translation import MAX_BEAM_SIZE, Limits, TranslationOptions
from service.translator import Translator

logger = logging.getLogger(__name__)

VERSION: Final = version("dragoman")
_PROBE_TEXT: Final = "Hello."
_PROBE_SECONDS: Final = 60.0


def create_app(settings: Settings, on_failure: Callable[[], None] = lambda: None) -> FastAPI:
    """The application for these settings; raises `CheckpointError` for a model that cannot be used.

    `on_failure` is called when the first start of an engine fails, which no restart would mend.
    """
    service = build_service(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.pool.start()
        probing = asyncio.create_task(_become_ready(service, on_failure))
        yield
        probing.cancel()
        await asyncio.gather(probing, return_exceptions=True)
        await service.pool.stop()

    app = FastAPI(
        title="Dragoman",
        version=VERSION,
        summary="Self-hosted machine translation that streams",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own loads its viewer from elsewhere; ours is with the page
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(translate.router)
    app.include_router(deepl.router)
    app.include_router(operations.router)
    app.include_router(page.router)
    for route in translate.router.routes:
        if isinstance(route, APIRoute):
            service.metrics.expect_requests(route.path)
    errors.install(app)
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    app.add_middleware(RequestObservation, metrics=service.metrics)
    return app


def build_service(settings: Settings) -> Service:
    """Everything behind the routes, engines not yet started."""
    settings = settings.model_copy(update={"model": imported(settings.model)})
    config = load_config(settings.model)
    metrics = Metrics(VERSION, _named(config), settings.mode)
    pool = build_pool(settings, config, metrics)
    translator = Translator(config, load_tokenizer(settings.model), pool, limits_of(settings, config))
    return Service(settings, translator, pool, metrics)


def build_pool(settings: Settings, config: CheckpointConfig, metrics: Metrics) -> EnginePool:
    options = EngineOptions(
        checkpoint=str(settings.model.resolve()),
        mode=settings.mode,
        threads=settings.threads,
        slots=settings.slots,
        max_prefill=settings.max_prefill,
        max_length=config.model.max_positions,
        log_level=settings.log_level,
        device=settings.device,
    )
    engines = [
        EngineProcess(replace(options, replica=replica), metrics.observer(replica), settings.engine_timeout_seconds)
        for replica in range(settings.replicas)
    ]
    return EnginePool(engines, capacity=settings.replicas * settings.slots + settings.max_waiting)


def _named(config: CheckpointConfig) -> str:
    """For people who look at the metrics: a label has no room for thousands of directions."""
    if config.directions:
        return ",".join(map(str, config.directions))
    return f"{len(config.languages)} languages"


def limits_of(settings: Settings, config: CheckpointConfig) -> Limits:
    positions = config.model.max_positions
    return Limits(
        max_characters=settings.max_characters,
        max_texts=settings.max_texts,
        max_segments_in_flight=settings.max_segments_in_flight,
        max_sentence_tokens=min(settings.max_sentence_tokens or positions, positions // 2),
        max_new_tokens=positions - len(config.prompt.target_prefix),
        restore_capitals=settings.restore_capitals,
        max_beam_size=min(settings.slots, MAX_BEAM_SIZE),
        timeout_seconds=settings.request_timeout_seconds,
    )


async def _become_ready(service: Service, on_failure: Callable[[], None]) -> None:
    """Ready means: every engine is loaded, and the model has answered a translation."""
    try:
        await service.pool.wait_until_started()
        translator = service.translator
        direction = translator.directions[0]
        # A deadline of its own: the first step of a fresh engine may take longer than users' are given.
        options = TranslationOptions(timeout_seconds=_PROBE_SECONDS)
        translation = translator.start([_PROBE_TEXT], direction.source, direction.target, options)
        try:
            async for _ in translation.events():
                pass
        finally:
            translation.close()
    except ServiceError as error:
        logger.error("cannot start: %s", error.message)
        on_failure()
    else:
        service.probed = True
        logger.info("ready")
