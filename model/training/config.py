"""One typed file (TOML) per experiment. Relative corpus paths are looked up in a data directory."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from babel import Locale, UnknownLocaleError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from model.checkpoint_config import Direction, LanguageCode
from model.config import ModelConfig


def _has_locale(language: str) -> bool:
    try:
        Locale.parse(language)
    except UnknownLocaleError:
        return False
    return True


def _problem(error: ErrorDetails) -> str:
    field = ".".join(map(str, error["loc"])) or "file"
    return f"{field}: {error['msg'].removeprefix('Value error, ')}"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Corpus(_Section):
    """A file of `source<TAB>target` lines, plain or .xz."""

    path: Path
    source_language: LanguageCode | None = Field(
        default=None, description="of the first column; the experiment's if absent"
    )
    target_language: LanguageCode | None = Field(default=None, description="of the second; the experiment's if absent")
    both_directions: bool = Field(default=False, description="learn the opposite direction from it, too")
    repeat: float = Field(default=1.0, gt=0.0, description="its weight: times that each pair is seen in an epoch")
    max_pairs: int | None = Field(default=None, ge=1, description="keep a deterministic sample of this size")
    max_words: int = Field(default=60, ge=1, description="drop pairs with a longer side")


class AugmentConfig(_Section):
    """Shares of the training pairs of which a changed copy is tried (model/training/augment.py).

    Some kinds apply to few pairs: `copied_words` needs a name, and `numbers` a number, that both sides hold.
    """

    lowercase: Share = 0.0
    uppercase: Share = 0.0
    no_full_stop: Share = 0.0
    target_copy: Share = 0.0
    quotes: Share = 0.0
    emoji: Share = 0.0
    copied_words: Share = 0.0
    numbers: Share = 0.0
    dates_and_prices: Share = 0.0

    def shares(self) -> dict[str, float]:
        return self.model_dump()


class DataConfig(_Section):
    """What to train on, and what to watch."""

    train: list[Corpus] = Field(min_length=1)
    validation: list[Corpus] = Field(min_length=1)
    augment: AugmentConfig = AugmentConfig()
    max_length_ratio: float = Field(default=2.5, gt=1.0, description="drop pairs whose sides differ more, in words")
    check_language: bool = Field(default=True, description="drop pairs of which a side is surely in another language")
    lowercase: bool = Field(default=False, description="lower-case both sides, as some benchmarks are defined")


class TokenizerConfig(_Section):
    """One SentencePiece unigram model for both languages, with byte fallback."""

    vocab_size: int = Field(default=8000, ge=300)


class OptimiserConfig(_Section):
    """AdamW, linear warm-up, then inverse square root or cosine decay."""

    learning_rate: float = Field(default=1e-3, gt=0.0)
    schedule: Literal["inverse_sqrt", "cosine"] = "cosine"
    warmup_steps: int = Field(default=500, ge=1)
    max_steps: int = Field(default=10_000, ge=1)
    batch_tokens: int = Field(default=4096, ge=64, description="source plus target tokens a batch, padding included")
    accumulate: int = Field(default=1, ge=1, description="batches a step, of each process")
    label_smoothing: float = Field(default=0.1, ge=0.0, lt=1.0)
    weight_decay: float = Field(default=0.01, ge=0.0)
    clip_norm: float = Field(default=1.0, gt=0.0)
    average_decay: float = Field(
        default=0.999, ge=0.0, lt=1.0, description="of the exponential average that is shipped"
    )
    validate_every: int = Field(default=500, ge=1, description="steps between validations and checkpoints")
    patience: int | None = Field(
        default=None, ge=1, description="stop after so many validations without improvement, and keep the best weights"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="of matrix products; auto: bfloat16 where there are instructions for it"
    )
    compile: bool = Field(default=False, description="torch.compile; costs minutes at the start, has not paid on a CPU")

    @model_validator(mode="after")
    def _check_warmup(self) -> Self:
        if self.warmup_steps >= self.max_steps:
            raise ValueError(f"warmup_steps ({self.warmup_steps}) must be less than max_steps ({self.max_steps})")
        return self


class TrainConfig(_Section):
    """The whole experiment."""

    source_language: LanguageCode
    target_language: LanguageCode
    seed: int = Field(default=1, ge=0)
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
        if self.data.augment.dates_and_prices:
            unknown = [code for direction in self.directions() for code in direction.codes() if not _has_locale(code)]
            if unknown:
                raise ValueError(f"data.augment.dates_and_prices: no rules are known for {', '.join(unknown)}")
        if (self.model.pad_id, self.model.bos_id, self.model.eos_id) != (0, 1, 2):
            raise ValueError("model.pad_id, bos_id and eos_id must be 0, 1 and 2, as in the tokenizer")
        return self

    def languages(self, corpus: Corpus) -> tuple[str, str]:
        """Of the corpus' two columns."""
        return corpus.source_language or self.source_language, corpus.target_language or self.target_language

    def directions(self) -> tuple[Direction, ...]:
        """What the model learns to translate, in the order of the corpora."""
        found = []
        for corpus in self.data.train:
            source, target = self.languages(corpus)
            found.append(Direction(source=source, target=target))
            if corpus.both_directions:
                found.append(Direction(source=target, target=source))
        return tuple(dict.fromkeys(found))

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Raises `ValueError` naming the file and each wrong field, or the place of broken syntax."""
        try:
            return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except ValidationError as error:
            raise ValueError(f"{path}: {'; '.join(map(_problem, error.errors()))}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
