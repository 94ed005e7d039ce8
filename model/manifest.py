"""What a checkpoint says of itself: `config.json` and the tokenizer. No torch, so the HTTP process can read it."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from model.config import ModelConfig
from model.tokenizer import Tokenizer


class CheckpointError(ValueError):
    """A checkpoint cannot be used; says which file and why."""


class Direction(BaseModel):
    """From one language into another, by their ISO 639 codes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(pattern=r"^[a-z]{2,3}$")
    target: str = Field(pattern=r"^[a-z]{2,3}$")

    def codes(self) -> tuple[str, str]:
        return self.source, self.target

    def __str__(self) -> str:
        return "-".join(self.codes())


class CheckpointConfig(BaseModel):
    """The content of `config.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    directions: tuple[Direction, ...] = Field(min_length=1)
    model: ModelConfig


def load_config(directory: Path) -> CheckpointConfig:
    """Raises `CheckpointError` when the directory, or a field of its config, is not usable."""
    path = directory / "config.json"
    try:
        return CheckpointConfig.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{directory} is not a checkpoint: it has no config.json") from None
    except ValidationError as error:
        fields = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise CheckpointError(f"{path}: {fields}") from None


def load_tokenizer(directory: Path) -> Tokenizer:
    """Raises `CheckpointError` when there is none or it is broken."""
    path = directory / "tokenizer.model"
    try:
        return Tokenizer.from_file(path)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{path}: {error}") from None
