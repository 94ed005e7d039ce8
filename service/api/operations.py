"""Probes and metrics."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Response

from service.metrics import CONTENT_TYPE
from service.schemas import ErrorResponse, ModelStatus, Status
from service.state import Service, service_of

router = APIRouter(tags=["operations"])
ServiceDependency = Annotated[Service, Depends(service_of)]
_UNAVAILABLE: Final[dict[int | str, dict[str, Any]]] = {
    503: {"model": ErrorResponse, "description": "starting, restarting or draining"}
}


@router.get("/livez", summary="The process answers")
async def livez() -> Status:
    return Status(status="ok")


@router.get("/readyz", summary="Translations will be answered", responses=_UNAVAILABLE)
@router.get("/health", summary="As LibreTranslate's", responses=_UNAVAILABLE)
async def readyz(service: ServiceDependency) -> Status:
    service.check_ready()
    return Status(status="ok")


@router.get("/models", summary="The models, and how each is", response_model_exclude_none=True)
async def models(service: ServiceDependency) -> list[ModelStatus]:
    return [
        ModelStatus(name=each.name, state=each.state, reason=each.reason, directions=each.described())
        for each in service.library.entries
    ]


@router.get("/metrics", summary="Prometheus metrics", response_class=Response)
async def metrics(service: ServiceDependency) -> Response:
    return Response(service.metrics.exposition(len(asyncio.all_tasks())), media_type=CONTENT_TYPE)
