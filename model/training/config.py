"""One typed file (TOML) per experiment. Relative corpus paths are looked up in a data directory."""

import tomllib
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from model.config import ModelConfig


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Corpus(_Section):
    """A file of `source<TAB>target` lines, plain or .xz."""

    path: Path
    repeat: int = Field(default=1, ge=1, description="times that each pair is seen in an epoch")
    max_pairs: int | None = Field(default=None, ge=1, description="keep a deterministic sample of this size")
    max_words: int = Field(default=60, ge=1, description="drop pairs with a longer side")


class DataConfig(_Section):
    """What to train on, and what to watch."""

    train: list[Corpus] = Field(min_length=1)
    validation: Corpus
    max_length_ratio: float = Field(default=2.5, gt=1.0, description="drop pairs whose sides differ more, in words")


class TokenizerConfig(_Section):
    """One SentencePiece unigram model for both languages, with byte fallback."""

    vocab_size: int = Field(default=8000, ge=300)


class OptimiserConfig(_Section):
    """AdamW, linear warm-up, then inverse square root or cosine decay."""

    learning_rate: float = Field(default=1e-3, gt=0.0)
    schedule: Literal["inverse_sqrt", "cosine"] = "cosine"
    warmup_steps: int = Field(default=500, ge=1)
    max_steps: int = Field(default=10_000, ge=1)
    batch_tokens: int = Field(default=4096, ge=64, description="source plus target tokens a step, padding included")
    label_smoothing: float = Field(default=0.1, ge=0.0, lt=1.0)
    weight_decay: float = Field(default=0.01, ge=0.0)
    clip_norm: float = Field(default=1.0, gt=0.0)
    average_decay: float = Field(
        default=0.999, ge=0.0, lt=1.0, description="of the exponential average that is shipped"
    )
    validate_every: int = Field(default=500, ge=1, description="steps between validations and checkpoints")
    precision: Literal["float32", "bfloat16"] = "bfloat16"


class TrainConfig(_Section):
    """The whole experiment."""

    source_language: str
    target_language: str
    seed: int = 1
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig
    optimiser: OptimiserConfig = OptimiserConfig()
    start_from: Path | None = Field(
        default=None, description="checkpoint whose tokenizer and weights to continue from, on other data"
    )

    @model_validator(mode="after")
    def _check_vocabulary(self) -> Self:
        if self.model.vocab_size != self.tokenizer.vocab_size:
            raise ValueError("model.vocab_size and tokenizer.vocab_size must be equal")
        return self

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Raises pydantic's ValidationError naming each wrong field, tomllib's for broken syntax."""
        return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
