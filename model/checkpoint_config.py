"""A checkpoint's description of itself: `config.json` and the tokenizer. No torch, so the HTTP process can read it."""

import hashlib
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from model.config import ModelConfig
from model.tokenizer import TOKENIZER_FILES, Prompt, Tokenizer

WEIGHTS_FILE: Final = "model.safetensors"
SHORTLIST_FILE: Final = "shortlist.safetensors"


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message names the file and the reason."""


Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
LanguageCode = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]


class Direction(BaseModel):
    """A source and a target language, by their BCP 47 codes: `fr`, `zh-Hant`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: LanguageCode
    target: LanguageCode

    def codes(self) -> tuple[str, str]:
        return self.source, self.target

    def __str__(self) -> str:
        return "-".join(self.codes())


class LanguageHint(NamedTuple):
    """The languages that a caller wants to translate between, as far as given."""

    source: str | None = None
    target: str | None = None


ANY: Final = LanguageHint()


class Origin(BaseModel):
    """The public model that a checkpoint was made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="without a revision", examples=["hf:Helsinki-NLP/opus-mt-en-de"])
    revision: str = Field(description="commit or version", examples=["6183067f769a302e3861815543b9f312c71b0ca4"])
    aliases: tuple[str, ...] = Field(default=(), description="other names of the revision when it was downloaded")
    url: str = Field(description="where it is from")
    licence: str | None = Field(default=None, description="as its source states it; none where it does not")
    sha256: dict[str, Digest] = Field(default={}, description="of each file as it was downloaded")


class CheckpointConfig(BaseModel):
    """The content of `config.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    directions: tuple[Direction, ...] = ()
    languages: tuple[LanguageCode, ...] = Field(default=(), description="each of them into every other")
    prompt: Prompt = Prompt()
    max_sentence_tokens: int | None = Field(
        default=None,
        ge=8,
        description="the longest sentence that the model translates well; longer ones are better cut",
    )
    model: ModelConfig
    sha256: dict[str, Digest] = Field(
        default={}, description="of each other file by its name; without it no damage is looked for"
    )

    origin: Origin | None = Field(default=None, description="of a model that was downloaded by its name")

    @model_validator(mode="after")
    def _check_directions(self) -> Self:
        if not self.directions and len(self.languages) < 2:
            raise ValueError("neither directions, nor two languages")
        return self

    @property
    def has_shortlist(self) -> bool:
        """True if the checkpoint has a lexical shortlist."""
        return SHORTLIST_FILE in self.sha256

    def all_directions(self) -> list[Direction]:
        """Return the directions that it translates, those between its `languages` included."""
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
    """Load a checkpoint's tokenizer.

    Raises `CheckpointError` if a file is missing, damaged or fails its checksum.
    """
    config = load_config(directory)
    present = {name for name in TOKENIZER_FILES if (directory / name).exists()}
    for name in sorted(present | config.sha256.keys() - {WEIGHTS_FILE, SHORTLIST_FILE}):
        verify(directory / name, config)
    try:
        return Tokenizer.from_directory(directory, config.prompt)
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{directory}: tokenizer: {error}") from None


def verify(path: Path, config: CheckpointConfig) -> None:
    """Raises `CheckpointError` for a file of the checkpoint that is not as it was written, if `config` has sums."""
    if not config.sha256:
        return
    try:
        is_whole = sha256_of(path) == config.sha256.get(path.name)
    except OSError as error:
        raise CheckpointError(f"{path}: {error}") from None
    if not is_whole:
        raise CheckpointError(f"{path}: its SHA-256 is not the one in config.json: it is damaged, or was changed")


def sha256_of(path: Path) -> str:
    """Return a hash of the file's content, in hexadecimal digits. Raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_id(directory: Path) -> str:
    """Return a hash that differs for a checkpoint with other content. Raises `CheckpointError`.

    `config.json` stands for all files if it has their sums. Otherwise their names, sizes and times count.
    """
    try:
        return sha256_of(directory / "config.json") if load_config(directory).sha256 else fingerprint(directory)
    except OSError as error:
        raise CheckpointError(f"{directory}: {error}") from None


def fingerprint(path: Path) -> str:
    """Return a hash of the files' names, sizes and times: other content is another model."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    states = [(str(each.resolve()), each.stat().st_size, each.stat().st_mtime_ns) for each in files]
    return hashlib.sha256(repr(states).encode()).hexdigest()[:16]
