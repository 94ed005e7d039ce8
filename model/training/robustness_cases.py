"""Cases of everyday input and the marks of a good translation of each, read from TOML files."""

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, TypeAdapter, model_validator

from model.checkpoint_config import Direction

CASES: Final = Path(__file__).parent / "cases"
_ENGLISH_NUMBER: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")


def _split(value: object) -> object:
    return tuple(choice.strip() for choice in value.split("|")) if isinstance(value, str) else value


Piece = Annotated[str, Field(min_length=1)]
Verbatim = Annotated[str, Field(pattern=r"^\S(.*[^\s*])?$")]
Word = Annotated[str, Field(pattern=r"^[^*]+\*?$", description="a whole word, or with a final * its beginning")]
Words = Annotated[tuple[Word, ...], BeforeValidator(_split), Field(min_length=1, description='"a|b": either will do')]
Pieces = Annotated[tuple[Piece, ...], BeforeValidator(_split), Field(min_length=1, description='"a|b": either will do')]


class Case(BaseModel):
    """A source and the marks of any good translation of it.

    Unless one says otherwise, case, kinds of space, of apostrophe, of dash and of double quotation mark do not count.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(pattern=r"\S")
    contains: tuple[Words, ...] = Field(default=(), description="each of these is in the translation")
    verbatim: tuple[Verbatim, ...] = Field(default=(), description="in it exactly, as often as in the source")
    numbers: tuple[Piece, ...] = Field(default=(), description="as in the source: in it, written in any usual way")
    equals: Pieces | None = Field(default=None, description="it is one of these, final punctuation aside")
    ends_with: Pieces | None = None
    not_ends_with: Pieces | None = None
    upper: StrictBool = Field(default=False, description="all capitals, with or without their accents")
    quote_pairs: tuple[int, ...] | None = Field(default=None, description="accepted numbers of quoted passages")
    example: str | None = Field(default=None, description="a translation that passes, to show that one can")

    @model_validator(mode="after")
    def _is_a_test(self) -> Self:
        if not (self.contains or self.equals):
            # The other checks may pass on a copy of the source, or on any sentence.
            raise ValueError("give contains or equals: what the translation says")
        for number in self.numbers:
            if not _ENGLISH_NUMBER.fullmatch(number):
                raise ValueError(f"{number} is not a number such as 1,234.56")
        for piece in (*self.verbatim, *self.numbers):
            if not count(normalised(piece), normalised(self.source)):
                raise ValueError(f"{piece} is not in the source")
        return self


Cases = Mapping[str, tuple[Case, ...]]
"""The cases of each category."""
_FILE: Final = TypeAdapter(dict[str, Annotated[tuple[Case, ...], Field(min_length=1)]])


def normalised(text: str) -> str:
    """Compose the characters of a text (NFC), and make its white space single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def count(piece: str, text: str) -> int:
    """Count `piece` in `text`, but not inside a longer word, unless a final * lets it go on."""
    stem = piece.removesuffix("*")
    before = r"(?<!\w)" if re.match(r"\w", stem) else ""
    after = r"(?!\w)" if re.search(r"\w$", piece) else ""
    return len(re.findall(before + re.escape(stem) + after, text))


def cases_path(direction: Direction, name: str = "robustness") -> Path:
    """Return a file of cases that comes with the trainer; raises `ValueError` where there is none of that name."""
    path = CASES / f"{name}.{direction}.toml"
    if not path.is_file():
        names = sorted(each.name.split(".")[0] for each in CASES.glob(f"*.{direction}.toml"))
        raise ValueError(f"no {name} cases for {direction}; there are: {', '.join(names) or 'none'}")
    return path


def load_cases(path: Path) -> Cases:
    """Load the cases of a TOML file, `"category" = [{ source = ... }, ...]`; raises `ValueError` with all problems."""
    return _FILE.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
