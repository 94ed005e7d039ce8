"""The typed file (TOML) of an experiment. Relative corpus paths are looked up in a data directory."""

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


def problem_of(error: ErrorDetails) -> str:
    """Return what is wrong with a field, after its name if it is a single one."""
    problem = "no such field" if error["type"] == "extra_forbidden" else error["msg"].removeprefix("Value error, ")
    field = ".".join(map(str, error["loc"]))
    return f"{field}: {problem}" if field else problem


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Corpus(_Section):
    """A file of `source<TAB>target` lines, plain or .xz."""

    path: Path
    source_language: LanguageCode | None = Field(
        default=None, description="language of the source column; the experiment's if absent"
    )
    target_language: LanguageCode | None = Field(
        default=None, description="language of the target column; the experiment's if absent"
    )
    reversed: bool = Field(default=False, description="its columns stand in the other order: target, then source")
    both_directions: bool = Field(default=False, description="learn the opposite direction from it, too")
    repeat: float = Field(default=1.0, gt=0.0, description="its weight: times that each pair is seen in an epoch")
    max_pairs: int | None = Field(default=None, ge=1, description="keep a deterministic sample of this size")
    max_words: int = Field(default=60, ge=1, description="drop pairs with a longer side")


class AugmentConfig(_Section):
    """Shares of the training pairs that are changed when they are read (model/training/augment.py).

    Every epoch draws anew. Some kinds apply to few pairs: `copied_words` needs a name, and `numbers` a number, that
    both sides hold.
    """

    lowercase: Share = 0.0
    uppercase: Share = 0.0
    title_case: Share = 0.0
    no_full_stop: Share = 0.0
    no_accents: Share = 0.0
    no_apostrophes: Share = 0.0
    target_copy: Share = 0.0
    curly_apostrophes: Share = 0.0
    quotes: Share = 0.0
    emoji: Share = 0.0
    dates_and_prices: Share = 0.0
    copied_words: Share = 0.0
    numbers: Share = 0.0


class DataConfig(_Section):
    """Text to train on, text to validate on, and filters."""

    train: list[Corpus] = Field(min_length=1)
    validation: list[Corpus] = Field(min_length=1)
    augment: AugmentConfig = AugmentConfig()
    max_length_ratio: float = Field(default=2.5, gt=1.0, description="drop pairs whose sides differ more, in words")
    check_language: bool = Field(default=True, description="drop pairs with a side that is surely in another language")
    check_content: bool = Field(
        default=True, description="drop pairs whose numbers, markup or final punctuation disagree, and the like"
    )
    tidy: bool = Field(default=True, description="write apostrophes and spaces before marks in one way")
    lowercase: bool = Field(default=False, description="lower-case both sides, as some benchmarks are defined")


class TokenizerConfig(_Section):
    """Options of the tokenizer: a SentencePiece unigram model for both languages, with byte fallback."""

    vocab_size: int = Field(default=8000, ge=300, le=65_536, description="at most what uint16 can number")
    case_marks: bool = Field(default=True, description="write upper case as marks (model/case_marks.py)")
    split_digits: bool = Field(default=True, description="make every digit a piece, so that numbers are copied")


class OptimiserConfig(_Section):
    """Algorithm, schedule and batches.

    A run lasts `max_steps` steps or `minutes` of training, whichever ends first.
    """

    algorithm: Literal["adamw", "muon"] = Field(
        default="adamw", description="muon (Jordan et al. 2024) is for matrices; AdamW keeps embeddings and vectors"
    )
    learning_rate: float = Field(default=1e-3, gt=0.0)
    schedule: Literal["cosine", "flat"] = Field(
        default="cosine", description="after warm-up: half a cosine to 0, or flat, then linear to 0"
    )
    warmup_steps: int = Field(default=500, ge=1)
    decay: float = Field(default=0.2, gt=0.0, lt=1.0, description="share of a flat run in which the rate falls to 0")
    max_steps: int = Field(default=10_000, ge=1)
    minutes: float | None = Field(default=None, gt=0.0, description="time to train, without preparation")
    row_tokens: int = Field(default=128, ge=16, description="positions a packed row; longer pairs are dropped")
    batch_tokens: int = Field(default=4096, ge=64, description="source plus target positions a batch")
    accumulate: int = Field(default=1, ge=1, description="batches a step")
    label_smoothing: float = Field(default=0.1, ge=0.0, lt=1.0)
    weight_decay: float = Field(default=0.01, ge=0.0)
    clip_norm: float = Field(default=1.0, gt=0.0)
    average_decay: float = Field(
        default=0.999, ge=0.0, lt=1.0, description="decay of the exponential average that is shipped"
    )
    subword_sampling: Share = Field(
        default=0.0, description="share of pairs whose pieces are sampled anew (Kudo 2018), until the rate decays"
    )
    validate_every: int = Field(default=500, ge=1, description="steps between validations and checkpoints")
    patience: int | None = Field(
        default=None, ge=1, description="stop after so many validations without improvement, and keep the best weights"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="precision of matrix products; auto: bfloat16 where the processor has it"
    )
    compile: bool = Field(default=False, description="torch.compile; takes minutes at the start, pays on a GPU")

    @property
    def rows(self) -> int:
        """Packed rows a batch."""
        return max(1, self.batch_tokens // (2 * self.row_tokens))

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.warmup_steps >= self.max_steps:
            raise ValueError(f"warmup_steps ({self.warmup_steps}) must be less than max_steps ({self.max_steps})")
        if self.batch_tokens < 2 * self.row_tokens:
            raise ValueError(f"batch_tokens ({self.batch_tokens}) must be at least two rows ({2 * self.row_tokens})")
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
    start_share: float = Field(
        default=0.0, ge=0, lt=1, description="share of start_from's weights in the checkpoint, against forgetting"
    )
    stored_as: Literal["float16", "int8"] = Field(
        default="float16",
        description="number format of the checkpoint's matrices; int8, with a scale for each row, takes half the room",
    )
    max_sentence_tokens: int | None = Field(
        default=None, ge=8, description="the longest sentence that the model will translate well; a server cuts others"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.model.vocab_size != self.tokenizer.vocab_size:
            raise ValueError("model.vocab_size and tokenizer.vocab_size must be equal")
        if self.optimiser.row_tokens > self.model.max_positions:
            raise ValueError(
                f"optimiser.row_tokens ({self.optimiser.row_tokens}) must be at most "
                f"model.max_positions ({self.model.max_positions})"
            )
        if self.model.positions == "relative":
            raise ValueError("model.positions: relative positions cannot be trained, only imported")
        if self.data.augment.dates_and_prices:
            unknown = [code for direction in self.directions() for code in direction.codes() if not _has_locale(code)]
            if unknown:
                raise ValueError(f"data.augment.dates_and_prices: no rules are known for {', '.join(unknown)}")
        ids = self.model.pad_id, self.model.bos_id, self.model.eos_id
        if self.start_from is None and (ids != (0, 1, 2) or self.model.projection_bias):
            raise ValueError(
                "model.pad_id, bos_id and eos_id must be 0, 1 and 2, and projection_bias false, as the trainer's own "
                "models have them"
            )
        return self

    def languages(self, corpus: Corpus) -> tuple[str, str]:
        """Return the languages of the corpus' sources and targets."""
        return corpus.source_language or self.source_language, corpus.target_language or self.target_language

    def directions(self) -> tuple[Direction, ...]:
        """Return the directions that the model learns, in the order of the corpora."""
        found = []
        for corpus in self.data.train:
            source, target = self.languages(corpus)
            found.append(Direction(source=source, target=target))
            if corpus.both_directions:
                found.append(Direction(source=target, target=source))
        return tuple(dict.fromkeys(found))

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Raises `ValueError` naming a file that cannot be read, each wrong field, or the place of broken syntax."""
        try:
            return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except ValidationError as error:
            raise ValueError(f"{path}: {'; '.join(map(problem_of, error.errors()))}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
