"""Names of public models and addresses of their indexes. Knows no network."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import Field

ARGOS_INDEX: Final = "https://raw.githubusercontent.com/argosopentech/argospm-index/main/index.json"
FIREFOX_INDEX: Final = (
    "https://firefox.settings.services.mozilla.com/v1/buckets/main/collections/translations-models-v2/records"
)

SourceName = Literal["hf", "argos", "firefox"]

_LANGUAGE: Final = r"[a-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*"
LanguageName = Annotated[str, Field(pattern=f"^{_LANGUAGE}$")]
"""A language as an index writes it; it becomes a part of file names."""
_OWNER_AND_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*")
_PAIR: Final = re.compile(f"({_LANGUAGE})-({_LANGUAGE})")
_REVISION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]*")
PACKAGE: Final = ".argosmodel"
"""Suffix of Argos' packages on disk."""


class _Form(NamedTuple):
    """The form of the names of one source, and an example for messages."""

    model: re.Pattern[str]
    example: str


_FORMS: Final[Mapping[SourceName, _Form]] = {
    "hf": _Form(_OWNER_AND_NAME, "hf:Helsinki-NLP/opus-mt-en-de or hf:Helsinki-NLP/opus-mt-en-de@main"),
    "argos": _Form(_PAIR, "argos:en-de or argos:en-de@1.0"),
    "firefox": _Form(_PAIR, "firefox:en-de or firefox:en-de@tiny"),
}


@dataclass(frozen=True)
class HubName:
    """The name of a public model: `hf:OWNER/NAME@REVISION`, `argos:en-de@VERSION`, `firefox:en-de@ARCHITECTURE`."""

    source: SourceName
    model: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.source}:{self.model}" + (f"@{self.revision}" if self.revision else "")

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target; None if the name does not tell them."""
        pair = None if self.source == "hf" else _PAIR.fullmatch(self.model)
        return (pair[1], pair[2]) if pair else None

    @property
    def unpinned(self) -> Self:
        """The name without its revision."""
        return replace(self, revision=None)


@dataclass(frozen=True)
class HubIndex:
    """All models of an index: `firefox:` or `argos:`, each fetched at the first request for it."""

    source: Literal["argos", "firefox"]

    def __str__(self) -> str:
        return f"{self.source}:"


@dataclass(frozen=True)
class HubOptions:
    """Addresses of the indexes, and True for `offline` if the network may not be used.

    Hugging Face's own options come from its `HF_...` variables.
    """

    offline: bool = False
    argos_index: str = ARGOS_INDEX
    firefox_index: str = FIREFOX_INDEX


_INDEXES: Final = {str(index): index for index in (HubIndex("argos"), HubIndex("firefox"))}


def parse_model(text: str) -> Path | HubName:
    """Return a path if the text names a file or directory, or does not have the form of a name; else the name.

    Raises `ValueError` for a wrong name: a text that begins with a source.
    """
    path = Path(text)
    if _exists(path):
        return path
    prefix, colon, rest = text.partition(":")
    if colon and prefix in _FORMS:
        return parse_name(text)
    model, _, _ = rest.partition("@") if colon else text.partition("@")
    is_name = not colon and _OWNER_AND_NAME.fullmatch(model) and not text.endswith(PACKAGE)
    return parse_name(f"hf:{text}") if is_name else path


def parse_models(text: str) -> Path | HubIndex | tuple[Path | HubName, ...]:
    """Return a directory, an index, or a list of models: separated by commas, or the lines of a file.

    Lines that begin with # are comments. Raises `ValueError`.
    """
    path = Path(text)
    if text in _INDEXES and not _exists(path):
        return _INDEXES[text]
    if path.is_file() and path.suffix != PACKAGE:
        texts = _lines(path)
    elif path.is_dir() or ("," not in text and isinstance(parse_model(text), Path)):
        return path
    else:
        texts = [part.strip() for part in text.split(",") if part.strip()]
    found = tuple(map(parse_model, texts))
    if twice := sorted({str(each) for each in found if found.count(each) > 1}):
        raise ValueError(f"{', '.join(twice)}: named twice")
    if not found:
        raise ValueError(f"{text} names no model")
    return found


def parse_name(text: str) -> HubName:
    """Parse a name; `OWNER/NAME` is Hugging Face's. Raises `ValueError`."""
    if _OWNER_AND_NAME.fullmatch(text.partition("@")[0]):
        text = f"hf:{text}"
    prefix, _, rest = text.partition(":")
    model, at, revision = rest.partition("@")
    for source, form in _FORMS.items():
        if prefix == source and form.model.fullmatch(model) and (not at or _REVISION.fullmatch(revision)):
            return HubName(source, model, revision or None)
    forms = [form for source, form in _FORMS.items() if source == prefix] or _FORMS.values()
    examples = ", ".join(form.example for form in forms)
    raise ValueError(f"{text!r} is not the name of a model; names look like {examples}")


def hidden_name(path: Path) -> HubName | None:
    """Return the public model with the same name as this existing path; the path takes precedence."""
    text = path.as_posix()
    return HubName("hf", text) if _OWNER_AND_NAME.fullmatch(text) and _exists(path) else None


def _lines(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"{path} cannot be read as a list of models") from None
    return [line for line in lines if line and not line.startswith("#")]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long for a file
        return False
