"""The routes of the table of exchanges."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from service.access.charges import Caller
from service.api.compat.exchange import Exchange, ForeignBody, Translated
from service.api.compat.table import EXCHANGES
from service.api.context import CallerDependency, ServiceContext, ServiceDependency
from service.api.openapi import CALLER_ERRORS, body_of, errors_of
from service.api.request_body import parse_body
from service.api.translate import until_finished

router = APIRouter(tags=["as other servers"])


def _handler(exchange: Exchange) -> Callable[..., Awaitable[JSONResponse]]:
    async def handle(request: Request, service: ServiceDependency, caller: CallerDependency) -> JSONResponse:
        body = await parse_body(request, exchange.body, or_url=True)
        return JSONResponse(body.answer(await _translated(request, service, caller, exchange, body)))

    return handle


async def _translated(
    request: Request, service: ServiceContext, caller: Caller, exchange: Exchange, body: ForeignBody
) -> Translated:
    """Translate the texts of a request as one batch."""
    texts, requested, wanted, options = body.wanted()
    await service.check_open()
    with service.choosing_model():
        source, target = service.translator.direction(requested, wanted, exchange.names)
    async with service.access.charged(caller, sum(map(len, texts)), exchange.names.text):
        translation = service.translator.start(texts, requested, target, options, exchange.names)
        finished = await until_finished(request, translation)
    sources = [each.language for each in finished.detected] or [source] * len(texts)
    return Translated(
        originals=texts,
        texts=[each.text for each in finished.translations],
        sources=sources,
        alternatives=[[other.text for other in each.alternatives] for each in finished.translations],
        source=next(iter(sources), source),
        target=target,
        seconds=finished.timings.total_seconds,
    )


for _exchange in EXCHANGES:
    for _method in _exchange.methods:
        router.add_api_route(
            _exchange.path,
            _handler(_exchange),
            methods=[_method],
            summary=_exchange.summary,
            responses=errors_of(_exchange.error, *CALLER_ERRORS, 400, 500, 504),
            response_class=JSONResponse,
            openapi_extra=body_of(_exchange.body) if _method == "POST" else None,
        )
