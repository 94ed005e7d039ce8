"""LibreTranslate's routes to translate, with our streams."""

import asyncio
import re
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse

from service.access.charges import Caller, Streamed
from service.api.context import CallerDependency, ServiceContext, ServiceDependency, owner_of
from service.api.openapi import BAD_INPUT, CALLER_ERRORS, EVENTS, ErrorResponse, Responses, body_of, errors_of
from service.api.request_body import check_url, parse_body
from service.api.sse import EventEncoder, TranslationStream
from service.api.translate_request import StreamQuery, TranslateRequest, TranslateResponse, answer
from service.errors import CallerLeft, InvalidRequest
from service.text.glossary import EMPTY_GLOSSARY, Glossary
from service.translation.events import Finished
from service.translation.translation import Translation
from service.translation.translator import AUTOMATIC

router = APIRouter(tags=["translation"])

T = TypeVar("T")

_EVENT_ID: Final = re.compile("([0-9]{1,15})(?:-([0-9A-Za-z_-]{1,24}))?")
_EVENT_STREAM: Final = "text/event-stream"
_ERRORS: Final = errors_of(ErrorResponse, *CALLER_ERRORS, 400, 404, 500, 504, own=BAD_INPUT)
_STREAM_DOCUMENTATION: Final[Responses] = {
    200: {
        "content": {_EVENT_STREAM: {"schema": EVENTS}},
        "description": "Events `start`, `token`, `segment`, `hypotheses` if requested, and exactly one `done` or "
        "`error` at the end.",
    },
    204: {"description": "the request resumes after the last event: there is nothing more to send"},
}


@router.post(
    "/translate",
    summary="Translate a text or an array of texts",
    response_model=TranslateResponse,
    responses={**_ERRORS, **_STREAM_DOCUMENTATION},
    openapi_extra=body_of(TranslateRequest),
)
async def translate(request: Request, service: ServiceDependency, caller: CallerDependency) -> Response:
    """Return JSON, or server-sent events if `stream` is true or the client accepts `text/event-stream`.

    The URL may hold fields of a form, as in LibreTranslate.
    """
    body = await parse_body(request, TranslateRequest, or_url=True)
    if body.stream or _EVENT_STREAM in request.headers.get("accept", ""):
        return await _stream(request, service, caller, body, request.headers.get("last-event-id", ""))
    body.check_without_stream()
    async with service.access.charged(caller, body.characters()):
        finished = await until_finished(request, await _start(request, service, caller, body))
    return JSONResponse(answer(finished, body.shape()))


@router.get(
    "/translate/stream",
    summary="Stream a translation to a browser's EventSource",
    response_class=Response,
    dependencies=[Depends(check_url)],
    responses={**_ERRORS, **_STREAM_DOCUMENTATION},
)
async def translate_stream(
    request: Request,
    service: ServiceDependency,
    caller: CallerDependency,
    query: Annotated[StreamQuery, Query()],
    last_event_id: Annotated[str, Header(json_schema_extra={"pattern": f"^({_EVENT_ID.pattern})?$"})] = "",
) -> Response:
    """Stream a translation like `POST /translate` with `stream`; `Last-Event-ID` resumes after that event.

    After the last event the answer is 204, which stops an `EventSource`.
    """
    return await _stream(request, service, caller, query, last_event_id)


async def _start(
    request: Request, service: ServiceContext, caller: Caller, body: TranslateRequest, *, resumes: bool = False
) -> Translation:
    await service.check_open(resumes=resumes)
    with service.choosing_model():
        make_options = partial(body.options, service.translator.limits.max_beam_size)
        # In a thread, because building a long glossary takes a while.
        options = await asyncio.to_thread(make_options) if body.glossary else make_options()
        if body.glossary_id:
            source, target = _glossary_direction(service, body)
            stored = await stored_glossary(service, caller, [body.glossary_id], source, target)
            options = replace(options, glossary=stored)
        options = replace(options, caller=caller.identity)
        request_id = request.state.request_id
        return service.translator.start(body.texts(), body.source, body.target, options, request_id=request_id)


def _glossary_direction(service: ServiceContext, body: TranslateRequest) -> tuple[str, str]:
    """Return the languages of a request with a stored glossary. Raises `InvalidRequest`."""
    source, target = service.translator.direction(body.source, body.target)
    if source == AUTOMATIC:
        raise InvalidRequest("source", "must be given with glossary_id")
    return source, target


async def stored_glossary(
    service: ServiceContext, caller: Caller, identifiers: Sequence[str], source: str, target: str
) -> Glossary:
    """Load glossaries by their ids or names, as one; without ids, an empty one. Raises the errors of the store."""
    if not identifiers:
        return EMPTY_GLOSSARY
    return await asyncio.to_thread(service.glossaries.glossary, identifiers, owner_of(caller), source, target)


async def _stream(
    request: Request, service: ServiceContext, caller: Caller, body: TranslateRequest, last_event_id: str
) -> TranslationStream:
    # Checked first, before anything is started that would have to be closed.
    last_event = _EVENT_ID.fullmatch(last_event_id)
    if last_event_id and last_event is None:
        raise InvalidRequest("Last-Event-ID", "must be an event's id")
    number, signature = ("-1", "") if last_event is None else last_event.groups("")
    body, stream = await _streamed(service, caller, body, signature)
    async with AsyncExitStack() as stack:
        stack.enter_context(service.access.stream(caller))
        charge = await stack.enter_async_context(service.access.charged(caller, body.characters(), stream=stream))
        translation = await _start(request, service, caller, body, resumes=bool(last_event_id))
        await until_engines_answer(request, translation)
        encoder = EventEncoder(body.shape(), int(number), charge.signature)
        return TranslationStream(translation, encoder, charge, stack.pop_all(), resumes=bool(last_event_id))


async def _streamed(
    service: ServiceContext, caller: Caller, body: TranslateRequest, signature: str
) -> tuple[TranslateRequest, Streamed]:
    """Name the stream of a counted caller, so that it can be signed; the request then has its glossary's id."""
    if not caller.is_counted:
        return body, Streamed()
    if body.glossary_id:
        # A name may be given to another glossary: a resumed stream must use the one that was charged.
        source, target = _glossary_direction(service, body)
        find = service.glossaries.for_direction
        known = await asyncio.to_thread(find, body.glossary_id, owner_of(caller), source, target)
        body = body.model_copy(update={"glossary_id": known.id})
    name = await asyncio.to_thread(body.name) if body.glossary else body.name()
    return body, Streamed(name, body.timeout_seconds or service.translator.limits.timeout_seconds, signature)


async def until_engines_answer(request: Request, translation: Translation) -> None:
    """Wait for engines before a stream begins; close the translation if none comes.

    Raises `CallerLeft` and `NotReady`.
    """
    if translation.lacks_engines:
        try:
            await unless_disconnected(request, translation.wait_for_engines())
        except BaseException:
            translation.close()
            raise


async def until_finished(request: Request, translation: Translation) -> Finished:
    """Wait for the whole translation and close it. Raises `CallerLeft` and `ServiceError`."""
    request.state.translation = translation
    try:
        return await unless_disconnected(request, translation.finished())
    finally:
        translation.close()


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; if the client disconnects first, cancel it and raise `CallerLeft`."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_disconnection(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerLeft
        return working.result()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _disconnection(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
