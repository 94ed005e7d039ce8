"""The request of OpenAI's chat, and its errors."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, Self

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from service.api.request_body import RequestBody
from service.api.translate_request import MAX_SEED
from service.errors import InvalidRequest
from service.translation.options import Sampling, TranslationOptions

_TRANSLATED_FIELDS: Final = ("line", "text", "content")
_FENCE: Final = re.compile(r"\s*```(?:json)?\s*(.*?)\s*```\s*", re.DOTALL)
"""Names of the translated field of an object in a message; all others come back unchanged."""
_MOST_MESSAGES: Final = 1000
LONGEST_MODEL: Final = 64
"""Characters of a model's name."""
# Without references: nothing resolves them in the description of a route.
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


class JsonMessage(NamedTuple):
    """A message that is JSON: an array of strings or of objects with a `line`, `text` or `content`, or named strings.

    Subtitle tools send the lines of a file so, and read the same shape from the answer.
    """

    names: Sequence[str] | None
    """The names of the strings, in an object; None in an array."""
    elements: Sequence[Any]
    wrapper: str | None
    """The field for the answer's array, by the schema of `response_format`."""

    @classmethod
    def parse(cls, message: str, response_format: object) -> Self | None:
        """Parse a message, with or without marks of a block of code; None for a message of another shape."""
        fenced = _FENCE.fullmatch(message)
        json = message if fenced is None else fenced[1]
        if not json.lstrip().startswith(("[", "{")):
            return None
        try:
            decoded = msgspec.json.decode(json)
        except (msgspec.DecodeError, RecursionError):
            return None
        names = list(decoded) if isinstance(decoded, dict) else None
        elements = decoded if isinstance(decoded, list) else list(decoded.values())
        if not elements or not all(isinstance(each, str) or (names is None and _field(each)) for each in elements):
            return None
        return cls(names, elements, _wrapper(response_format))

    def texts(self) -> list[str]:
        """Return the texts to translate, one for each element."""
        return [each if isinstance(each, str) else each[_field(each)] for each in self.elements]

    def answer(self, translations: Sequence[str]) -> str:
        """Return the JSON with its texts translated."""
        pairs = zip(self.elements, translations, strict=True)
        filled = [text if isinstance(each, str) else {**each, _field(each): text} for each, text in pairs]
        if self.names is not None:
            return msgspec.json.encode(dict(zip(self.names, filled, strict=True))).decode()
        return msgspec.json.encode(filled if self.wrapper is None else {self.wrapper: filled}).decode()


def _field(element: object) -> str:
    """Return the name of the field with the text; "" without such a field."""
    if not isinstance(element, dict):
        return ""
    return next((name for name in _TRANSLATED_FIELDS if isinstance(element.get(name), str)), "")


def _wrapper(response_format: object) -> str | None:
    """Return the only array of the object that a JSON schema describes."""
    schema: object = response_format
    for name in ("json_schema", "schema", "properties"):
        schema = schema.get(name) if isinstance(schema, Mapping) else None
    properties = schema if isinstance(schema, Mapping) else {}
    arrays = [name for name, each in properties.items() if isinstance(each, Mapping) and each.get("type") == "array"]
    return arrays[0] if len(arrays) == 1 else None


class ChatProblem(BaseModel):
    message: str = Field(examples=["model: zz is not supported; available: fr"])
    type: str = Field(examples=["invalid_request"])
    code: str = Field(examples=["invalid_request"])
    param: None = None


class ChatError(BaseModel):
    """An error in the shape of OpenAI's."""

    error: ChatProblem


def _text(content: object) -> str:
    """Return the text of a content, whose parts are joined; report one problem, not one for each part."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(map(_is_text, content)):
        problem = "must be a string, or an array of parts with the type text and a text"
        raise PydanticCustomError("content_type", problem)
    return "".join(part["text"] for part in content)


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


class Message(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: str
    content: Annotated[str, BeforeValidator(_text)] = ""


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool | None = None


class ChatRequest(RequestBody):
    """A request of OpenAI's clients. Unknown fields are ignored, unavailable options refused."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(
        max_length=LONGEST_MODEL,
        description="dragoman-SOURCE-TARGET, or dragoman-TARGET to detect",
        examples=["dragoman-en-fr"],
    )
    messages: Annotated[list[Message], WithJsonSchema(_MESSAGES)] = Field(
        min_length=1,
        max_length=_MOST_MESSAGES,
        description="the last one of a user is translated, all others have no effect; an array in JSON of strings, or "
        "of objects with a line or a text, stays JSON",
        examples=[[{"role": "user", "content": "I see a cat."}]],
    )
    stream: bool | None = Field(default=None, description="null is false")
    stream_options: Annotated[StreamOptions | None, WithJsonSchema({"type": ["object", "null"]})] = None
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = Field(default=None, description="above 0: sampling")
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    seed: Annotated[int, Field(ge=-MAX_SEED, le=MAX_SEED)] | None = Field(
        default=None, description="as in `/translate`"
    )
    n: int | None = Field(default=None, description="1")
    stop: Any = Field(default=None, description="not available")
    tools: Any = Field(default=None, description="not available")
    response_format: Any = Field(
        default=None, description="text; for a message that is JSON also json_object and json_schema"
    )

    def check(self) -> None:
        """Raise `InvalidRequest` for unavailable options that would change the answer."""
        if self.n not in (None, 1):
            raise InvalidRequest("n", "must be 1")
        for field in ("stop", "tools"):
            if getattr(self, field):
                raise InvalidRequest(field, "is not available")
        if self.response_format not in (None, {"type": "text"}) and self.array() is None:
            raise InvalidRequest("response_format", "is available only for a message that is an array of texts in JSON")

    def text(self) -> str:
        """Return the text to translate. Raises `InvalidRequest` without a message of a user."""
        own = [message for message in self.messages if message.role == "user"]
        if not own:
            raise InvalidRequest("messages", "there is none of the role user")
        return own[-1].content

    def array(self) -> JsonMessage | None:
        """Return the text to translate as an array, if it is an array of texts in JSON."""
        return JsonMessage.parse(self.text(), self.response_format)

    def options(self) -> TranslationOptions:
        sampling = Sampling(self.temperature or 0.0, 0, 1.0 if self.top_p is None else self.top_p, abs(self.seed or 0))
        return TranslationOptions(sampling=sampling, has_seed=self.seed is not None)
