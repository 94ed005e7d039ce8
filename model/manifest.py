"""What a checkpoint says of itself: `config.json` and the tokenizer. No torch, so the HTTP process can read it."""

from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from model.config import ModelConfig
from model.tokenizer import Prompt, Tokenizer


class CheckpointError(ValueError):
    """A checkpoint cannot be used; says which file and why."""


LanguageCode = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]


class Direction(BaseModel):
    """From one language into another, by their BCP 47 codes: `fr`, `zh-Hant`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: LanguageCode
    target: LanguageCode

    def codes(self) -> tuple[str, str]:
        return self.source, self.target

    def __str__(self) -> str:
        return "-".join(self.codes())


class Wanted(NamedTuple):
    """Between which languages, as far as it is said."""

    source: str | None = None
    target: str | None = None


ANY: Final = Wanted()


class CheckpointConfig(BaseModel):
    """The content of `config.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    directions: tuple[Direction, ...] = ()
    languages: tuple[LanguageCode, ...] = Field(default=(), description="each of them into every other")
    prompt: Prompt = Prompt()
    max_sentence_tokens: int | None = Field(
        default=None, ge=8, description="longer sentences are better cut: what the model has learned to translate well"
    )
    model: ModelConfig

    @model_validator(mode="after")
    def _check_directions(self) -> Self:
        if not self.directions and len(self.languages) < 2:
            raise ValueError("neither directions, nor two languages")
        return self

    def all_directions(self) -> list[Direction]:
        """What it translates, those of its `languages` written out."""
        among = (Direction(source=a, target=b) for a in self.languages for b in self.languages if a != b)
        return list(dict.fromkeys([*self.directions, *among]))


def load_config(directory: Path) -> CheckpointConfig:
    """Raises `CheckpointError` when the directory, or a field of its config, is not usable."""
    path = directory / "config.json"
    try:
        return CheckpointConfig.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{directory} is not a checkpoint: it has no config.json") from None
    except OSError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except ValidationError as error:
        fields = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise CheckpointError(f"{path}: {fields}") from None


def load_tokenizer(directory: Path) -> Tokenizer:
    """Raises `CheckpointError` when there is none or it is broken."""
    try:
        return Tokenizer.from_directory(directory, load_config(directory).prompt)
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{directory}: tokenizer: {error}") from None
