"""Wire types of the HTTP API. They end here: nothing below `api` sees them."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, WrapValidator
from pydantic_core import PydanticCustomError, ValidationError

from service.engine.request import Sampling
from service.translation import TranslationOptions

_MAX_SEED: Final = 2**63 - 1
_MAX_TOP_K: Final = 2**31 - 1  # more than any vocabulary


def _one_problem(value: Any, validate: Any) -> Any:
    """A union reports each alternative's problem; people want one sentence."""
    try:
        return validate(value)
    except ValidationError:
        raise PydanticCustomError("text_type", "must be a string or an array of strings") from None


Texts = Annotated[str | list[str], WrapValidator(_one_problem)]
LanguageCode = Annotated[str, Field(min_length=1, max_length=16)]


class TranslateRequest(BaseModel):
    """LibreTranslate's request, and what we add to it. Unknown fields are refused, not ignored."""

    model_config = ConfigDict(extra="forbid")

    q: Texts = Field(description="text to translate, or several")
    source: LanguageCode = Field(description="language code of the text", examples=["en"])
    target: LanguageCode = Field(description="language code to translate into", examples=["fr"])
    format: Literal["text"] = Field(default="text")
    alternatives: int = Field(default=0, ge=0, le=0, description="only 0 is available")
    api_key: str | None = Field(default=None, description="accepted and ignored")
    stream: bool = Field(default=False, description="answer with server-sent events")
    temperature: float = Field(default=0.0, ge=0.0, le=10.0, description="0 is greedy")
    top_k: int = Field(default=0, ge=0, le=_MAX_TOP_K, description="sample from the k best tokens; 0 from all")
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, description="sample from the most probable tokens of this sum")
    seed: int = Field(default=0, ge=0, le=_MAX_SEED, description="same seed, same sample")
    max_new_tokens: int | None = Field(default=None, ge=1, description="per sentence")
    timeout_seconds: float | None = Field(default=None, gt=0.0, le=3600.0)

    def options(self) -> TranslationOptions:
        return TranslationOptions(
            sampling=Sampling(self.temperature, self.top_k, self.top_p, self.seed),
            max_new_tokens=self.max_new_tokens,
            timeout_seconds=self.timeout_seconds,
        )

    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class StreamQuery(TranslateRequest):
    """The same request in a URL: one text."""

    q: str


class TranslateResponse(BaseModel):
    """`translatedText` has the shape of `q`."""

    translatedText: str | list[str]


class ErrorResponse(BaseModel):
    """What went wrong, for people, and its stable code."""

    error: str
    code: str


class Language(BaseModel):
    """A language that can be translated, and into what."""

    code: str
    name: str
    targets: list[str]


class Status(BaseModel):
    """The answer of a probe."""

    status: str
