"""The routes of operations: probes, models and metrics."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from model.checkpoint_config import Origin
from service.api.context import ServiceDependency, may_see_paths
from service.api.openapi import ErrorResponse, Responses, errors_of
from service.observability.metrics import CONTENT_TYPE
from service.registry.model_version import State

router = APIRouter(tags=["operations"])
_NO_ERRORS: Final = errors_of(ErrorResponse)
_MODELS: Final = errors_of(ErrorResponse, 413, 429)
_HIDDEN: Final = "shown to callers with an API key"
_UNAVAILABLE: Final = errors_of(ErrorResponse, 503, own={503: "starting, restarting, draining, or no usable model"})
_EXPOSITION: Final[Responses] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text format"},
    **_NO_ERRORS,
}


class ModelStatus(BaseModel):
    """The state of one model."""

    name: str = Field(description="name of its file or directory, or of the public model", examples=["en-fr"])
    directions: Sequence[str] = Field(description="directions that it translates", examples=[["en-fr"]])
    languages: Sequence[str] = Field(description="languages that it translates, each into every other")
    state: State
    reason: str | None = Field(
        default=None, description="reason of its failure, or of the last failed attempt to load it"
    )
    downloaded: float | None = Field(default=None, description="finished share of its download, during the download")
    memory_bytes: int = Field(description="resident memory of its engine processes now")
    shortlist: bool = Field(default=False, description="translations have only words of the model's lexical shortlist")
    origin: Origin | None = Field(default=None, description="the public model, if it was downloaded by name")


class Status(BaseModel):
    """The response of a probe."""

    status: str = Field(examples=["ok"])


@router.get("/livez", summary="Liveness: the process answers", responses=_NO_ERRORS)
async def livez() -> Status:
    return Status(status="ok")


@router.get("/readyz", summary="Readiness: translations are served", responses=_UNAVAILABLE)
@router.get("/health", summary="Readiness, at LibreTranslate's path", responses=_UNAVAILABLE)
async def readyz(service: ServiceDependency) -> Status:
    service.check_ready()
    return Status(status="ok")


@router.get("/models", summary="List the models and their states", responses=_MODELS, response_model_exclude_none=True)
async def models(service: ServiceDependency, shows_paths: Annotated[bool, Depends(may_see_paths)]) -> list[ModelStatus]:
    """List the models. If the server requires keys, only callers with one see reasons of failures, which name paths."""
    return [
        ModelStatus(
            name=each.name,
            directions=each.model.listed if each.model else tuple(map(str, each.directions)),
            languages=each.model.languages if each.model else (),
            state=each.state,
            reason=each.reason if shows_paths or each.reason is None else _HIDDEN,
            downloaded=each.downloaded,
            memory_bytes=each.memory_bytes,
            shortlist=each.model.uses_shortlist if each.model else False,
            origin=each.model.origin if each.model else None,
        )
        for each in service.library.versions
    ]


@router.get("/spec", summary="This description of the API, at LibreTranslate's path", responses=_NO_ERRORS)
async def spec(request: Request) -> dict[str, Any]:
    document: dict[str, Any] = request.app.openapi()
    return document


@router.get("/metrics", summary="Prometheus metrics", response_class=Response, responses=_EXPOSITION)
async def metrics(service: ServiceDependency) -> Response:
    exposition = service.metrics.exposition(service.ready, service.library.versions, len(asyncio.all_tasks()))
    return Response(exposition, media_type=CONTENT_TYPE)
