"""OpenAI's routes: they translate the last message of a user; the name of the model tells the languages."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from service.access.charges import Streamed
from service.api.compat.chat_schemas import LONGEST_MODEL, ChatError, ChatRequest
from service.api.context import CallerDependency, ServiceContext, ServiceDependency
from service.api.openapi import CALLER_ERRORS, body_of, errors_of
from service.api.request_body import parse_body
from service.api.sse import TranslationStream
from service.api.translate import until_engines_answer, until_finished
from service.errors import InvalidRequest, ServiceError, UnknownModel
from service.translation.events import Event, Finished, Started, TokenGenerated, Usage
from service.translation.translator import AUTOMATIC, FieldNames, Translator

router = APIRouter(prefix="/v1", tags=["as other servers"])

_PREFIX: Final = "dragoman-"
_CALLER_ERRORS: Final = (401, *(status for status in CALLER_ERRORS if status != 403))
_NAMES: Final = FieldNames(text="messages", source="model", target="model")
_ANSWERS: Final[dict[str, Any]] = {
    "content": {"application/json": {}, "text/event-stream": {}},
    "description": "A completion, or its chunks",
}


@router.post(
    "/chat/completions",
    summary="As OpenAI's chat: translate the last message of a user",
    response_class=JSONResponse,
    responses={**errors_of(ChatError, *_CALLER_ERRORS, 400, 404, 500, 504), 200: _ANSWERS},
    openapi_extra=body_of(ChatRequest),
)
async def completions(request: Request, service: ServiceDependency, caller: CallerDependency) -> Response:
    """Return a completion, or its chunks as server-sent events if `stream` is true."""
    body = await parse_body(request, ChatRequest)
    body.check()
    array = body.array()
    texts = [body.text()] if array is None else array.texts()
    await service.check_open()
    source, target = _chosen(service, body.model)
    async with AsyncExitStack() as stack:
        if body.stream:
            stack.enter_context(service.access.stream(caller))
        is_stream = body.stream and array is None
        charge = await stack.enter_async_context(
            service.access.charged(caller, sum(map(len, texts)), _NAMES.text, Streamed() if is_stream else None)
        )
        request_id = request.state.request_id
        translation = service.translator.start(texts, source, target, body.options(), _NAMES, request_id)
        if not is_stream:
            finished = await until_finished(request, translation)
            translations = [each.text for each in finished.translations]
            content = translations[0] if array is None else array.answer(translations)
            chunks = Chunks(body, request_id)
            if body.stream:
                whole = chunks.delta({"role": "assistant", "content": content}) + chunks.end(finished.usage)
                return Response(whole, media_type="text/event-stream")
            return JSONResponse(_completion(body.model, request_id, content, finished.usage))
        await until_engines_answer(request, translation)
        return TranslationStream(translation, Chunks(body, request_id), charge, stack.pop_all())


@router.get("/models", summary="As OpenAI's list of models", responses=errors_of(ChatError, *_CALLER_ERRORS))
async def models(service: ServiceDependency, caller: CallerDependency) -> dict[str, Any]:
    """Return a model for each direction."""
    names = [f"{_PREFIX}{direction}" for direction in service.translator.directions]
    return {"object": "list", "data": [_model(name) for name in names]}


@router.get(
    "/models/{model}",
    summary="As OpenAI's description of a model",
    responses=errors_of(ChatError, *_CALLER_ERRORS, 404),
)
async def describe_model(service: ServiceDependency, caller: CallerDependency, model: str) -> dict[str, Any]:
    """Return a model, by any name that completions accept."""
    if len(model) > LONGEST_MODEL:
        raise UnknownModel(model)
    _chosen(service, model)
    return _model(model)


class Chunks(NamedTuple):
    """The chunks of a completion, which end with `[DONE]`, as bytes."""

    request: ChatRequest
    identifier: str

    def encode(self, events: Sequence[Event], *, repeats_end: bool) -> bytes:
        return b"".join(map(self._of_event, events))

    def encode_error(self, error: ServiceError) -> bytes:
        described = {"message": error.message, "type": error.code, "code": error.code}
        return b"data: %b\n\n" % msgspec.json.encode({"error": described})

    def _of_event(self, event: Event) -> bytes:
        match event:
            case Started():
                # Clients take the role of the whole message from its first chunk.
                return self.delta({"role": "assistant", "content": ""})
            case TokenGenerated(text=text) if text:
                return self.delta({"content": text})
            case Finished(usage=usage):
                return self.end(usage)
            case _:
                return b""

    def delta(self, delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    def end(self, usage: Usage) -> bytes:
        last = self.delta({}, "stop")
        options = self.request.stream_options
        if options is not None and options.include_usage:
            last += self._chunk([], usage=_usage(usage))
        return last + b"data: [DONE]\n\n"

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        head = _head(self.request.model, self.identifier, "chat.completion.chunk")
        return b"data: %s\n\n" % msgspec.json.encode(head | {"choices": choices} | more)


def _chosen(service: ServiceContext, model: str) -> tuple[str, str]:
    """Return the source and target of a model. Raises `UnknownModel`, and `NotReady` if it may come."""
    try:
        with service.choosing_model():
            return direction_of(service.translator, model)
    except InvalidRequest:
        raise UnknownModel(model) from None


def direction_of(translator: Translator, model: str) -> tuple[str, str]:
    """Return the source and target in the name of a model; codes may have hyphens. Raises `InvalidRequest`."""
    languages = model.removeprefix(_PREFIX)
    if not languages or not model.startswith(_PREFIX):
        raise InvalidRequest("model", f"must be {_PREFIX}SOURCE-TARGET or {_PREFIX}TARGET, with language codes")
    parts = languages.split("-")
    pairs = [("-".join(parts[:place]), "-".join(parts[place:])) for place in range(1, len(parts))]
    # A target alone may have a hyphen only as the models write it: fr-zz must not be matched to fr.
    if not pairs or any(languages == each.target for each in translator.directions):
        pairs.append((AUTOMATIC, languages))
    problems: list[InvalidRequest] = []
    for pair in pairs:
        try:
            return translator.direction(*pair, _NAMES)
        except InvalidRequest as error:
            problems.append(error)
    raise problems[0]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "dragoman"}


def _head(model: str, identifier: str, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{identifier}",
        "object": kind,
        "created": int(datetime.now(UTC).timestamp()),
        "model": model,
    }


def _completion(model: str, identifier: str, content: str, usage: Usage) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return _head(model, identifier, "chat.completion") | {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _usage(usage),
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.source_tokens,
        "completion_tokens": usage.generated_tokens,
        "total_tokens": usage.source_tokens + usage.generated_tokens,
    }
