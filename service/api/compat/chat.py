"""The routes of OpenAI-compatible clients: the last message of a user is translated, as the name of the model says."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from service.api.authentication import CallerDependency
from service.api.dependencies import ServiceContext, ServiceDependency
from service.api.field_types import RequestBody
from service.api.openapi import CALLER_ERRORS, errors_of
from service.api.request_body import body_of, parse_body
from service.api.sse import AnswerShape, TranslationStream
from service.api.translate import until_engines_answer, until_finished
from service.engine.generation_request import Sampling
from service.errors import InvalidRequest
from service.translation.events import Event, Finished, TokenGenerated, Usage
from service.translation.options import TranslationOptions
from service.translation.translator import AUTOMATIC, FieldNames

router = APIRouter(prefix="/v1", tags=["as other servers"])

_PREFIX: Final = "dragoman-"
_NAMES: Final = FieldNames(text="messages", source="model", target="model")
_MOST_MESSAGES: Final = 1000
# Without references, which a description within a route cannot resolve.
_MESSAGES: Final[dict[str, Any]] = {
    "type": "array",
    "minItems": 1,
    "maxItems": _MOST_MESSAGES,
    "items": {
        "type": "object",
        "required": ["role", "content"],
        "properties": {"role": {"type": "string"}, "content": {"type": "string"}},
    },
}


class ChatProblem(BaseModel):
    message: str = Field(examples=["model: zz is not supported; available: fr"])
    type: str = Field(examples=["invalid_request"])
    code: str = Field(examples=["invalid_request"])
    param: None = None


class ChatError(BaseModel):
    """An error in the shape of OpenAI's."""

    error: ChatProblem


class Part(BaseModel):
    """A part of a message; only texts can be translated."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["text"]
    text: str


class Message(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: str
    content: str | list[Part] | None = None

    def text(self) -> str:
        parts = self.content or ""
        return parts if isinstance(parts, str) else "".join(part.text for part in parts)


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class ChatRequest(RequestBody):
    """A request of OpenAI's clients. Unknown fields are ignored; options that no model here has are refused."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(
        max_length=64, description="dragoman-SOURCE-TARGET, or dragoman-TARGET to detect", examples=["dragoman-en-fr"]
    )
    messages: Annotated[list[Message], WithJsonSchema(_MESSAGES)] = Field(
        min_length=1,
        max_length=_MOST_MESSAGES,
        description="the last one of a user is translated, all others have no effect",
        examples=[[{"role": "user", "content": "I am a cat."}]],
    )
    stream: bool = False
    stream_options: Annotated[StreamOptions | None, WithJsonSchema({"type": ["object", "null"]})] = None
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = Field(default=None, description="above 0: sampling")
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    seed: int | None = None
    n: int | None = Field(default=None, description="1")
    stop: Any = Field(default=None, description="not available")
    tools: Any = Field(default=None, description="not available")
    response_format: Any = Field(default=None, description="not available but for text")

    def check(self) -> None:
        """Raise `InvalidRequest` for options that would change the answer and are not available."""
        if self.n not in (None, 1):
            raise InvalidRequest("n", "must be 1")
        for field in ("stop", "tools"):
            if getattr(self, field):
                raise InvalidRequest(field, "is not available")
        if self.response_format not in (None, {"type": "text"}):
            raise InvalidRequest("response_format", "is not available")

    def text(self) -> str:
        """Return the text to translate. Raises `InvalidRequest` if there is none."""
        own = [message for message in self.messages if message.role == "user"]
        if not own:
            raise InvalidRequest("messages", "there is none of the role user")
        return own[-1].text()

    def options(self) -> TranslationOptions:
        sampling = Sampling(self.temperature or 0.0, 0, 1.0 if self.top_p is None else self.top_p, abs(self.seed or 0))
        return TranslationOptions(sampling=sampling, has_seed=self.seed is not None)


_ANSWERS: Final[dict[str, Any]] = {
    "content": {"application/json": {}, "text/event-stream": {}},
    "description": "A completion, or its chunks",
}


@router.post(
    "/chat/completions",
    summary="As OpenAI's chat: translate the last message of a user",
    response_class=JSONResponse,
    responses={**errors_of(ChatError, *CALLER_ERRORS, 400, 500, 504), 200: _ANSWERS},
    openapi_extra=body_of(ChatRequest),
)
async def completions(request: Request, service: ServiceDependency, caller: CallerDependency) -> Response:
    """Return a completion, or its chunks as server-sent events if `stream` is true."""
    body = await parse_body(request, ChatRequest)
    body.check()
    text = body.text()
    await service.check_open()
    with service.choosing_model():
        source, target = _direction(service, body.model)
    async with AsyncExitStack() as stack:
        if body.stream:
            stack.enter_context(service.access.stream(caller))
        charge = await stack.enter_async_context(service.access.charged(caller, len(text), _NAMES.text))
        translation = service.translator.start([text], source, target, body.options(), _NAMES)
        translation.id = request.state.request_id
        if not body.stream:
            finished = await until_finished(request, translation)
            return JSONResponse(_completion(body.model, translation.id, finished))
        await until_engines_answer(request, translation)
        charge.sent = lambda: translation.characters_sent
        return ChatStream(
            translation,
            shape=AnswerShape(),
            last_event_id=-1,
            keep_alive_seconds=service.settings.keep_alive_seconds,
            before_end=partial(service.access.settle, charge),
            context=stack.pop_all(),
            request=body,
        )


@router.get("/models", summary="As OpenAI's list of models", responses=errors_of(ChatError, *CALLER_ERRORS))
async def models(service: ServiceDependency, caller: CallerDependency) -> dict[str, Any]:
    """Return a model for each direction."""
    names = [f"{_PREFIX}{direction}" for direction in service.translator.directions]
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 0, "owned_by": "dragoman"} for name in names],
    }


class ChatStream(TranslationStream):
    """The chunks of a completion, which end with `[DONE]`."""

    def __init__(self, *args: Any, request: ChatRequest, **options: Any) -> None:
        super().__init__(*args, **options)
        self._request = request

    def _encode_new(self, first_number: int, events: Sequence[Event]) -> bytes:
        return b"".join(self._encode_chunks(event) for event in events)

    def _encode_chunks(self, event: Event) -> bytes:
        match event:
            case TokenGenerated(text=text) if text:
                return self._chunk([{"index": 0, "delta": {"content": text}, "finish_reason": None}])
            case Finished(usage=usage):
                last = self._chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}])
                options = self._request.stream_options
                if options is not None and options.include_usage:
                    last += self._chunk([], usage=_usage(usage))
                return last + b"data: [DONE]\r\n\r\n"
            case _:
                return b""

    def _encode_error(self, message: str, code: str) -> bytes:
        return b"data: %s\r\n\r\n" % msgspec.json.encode({"error": {"message": message, "type": code, "code": code}})

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        head = _head(self._request.model, self._translation.id, "chat.completion.chunk")
        return b"data: %s\r\n\r\n" % msgspec.json.encode(head | {"choices": choices} | more)


def _direction(service: ServiceContext, model: str) -> tuple[str, str]:
    """Return the source and target in the name of a model; codes may have hyphens. Raises `InvalidRequest`."""
    if not model.startswith(_PREFIX):
        raise InvalidRequest("model", f"must be {_PREFIX}SOURCE-TARGET or {_PREFIX}TARGET, with language codes")
    parts = model.removeprefix(_PREFIX).split("-")
    pairs = [("-".join(parts[:place]), "-".join(parts[place:])) for place in range(1, len(parts))]
    problems: list[InvalidRequest] = []
    for pair in pairs or [(AUTOMATIC, parts[0])]:
        try:
            return service.translator.direction(*pair, _NAMES)
        except InvalidRequest as error:
            problems.append(error)
    raise problems[0]


def _head(model: str, identifier: str, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{identifier}",
        "object": kind,
        "created": int(datetime.now(UTC).timestamp()),
        "model": model,
    }


def _completion(model: str, identifier: str, finished: Finished) -> dict[str, Any]:
    message = {"role": "assistant", "content": finished.translations[0].text}
    return _head(model, identifier, "chat.completion") | {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _usage(finished.usage),
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.source_tokens,
        "completion_tokens": usage.generated_tokens,
        "total_tokens": usage.source_tokens + usage.generated_tokens,
    }
