"""An exchange with another server's client: its request, and the translation for its answer."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from service.api.openapi import ErrorResponse
from service.api.request_body import RequestBody
from service.text.xml import XmlTags
from service.translation.options import TranslationOptions
from service.translation.translator import AUTOMATIC, FieldNames


class Wanted(NamedTuple):
    """A translation that a client requests; a source of `auto` is detected."""

    texts: Sequence[str]
    source: str
    target: str
    options: TranslationOptions


class Translated(NamedTuple):
    """Texts with their translations, source languages and alternatives, in the order of the request."""

    originals: Sequence[str]
    texts: Sequence[str]
    sources: Sequence[str]
    alternatives: Sequence[Sequence[str]]
    source: str
    """The source language of the request, or the detected language of its first text."""
    target: str
    seconds: float


class ForeignBody(RequestBody):
    """A request of another server's client. Unknown fields are ignored, as those servers do."""

    model_config = ConfigDict(extra="ignore")

    @abstractmethod
    def wanted(self) -> Wanted:
        """Return the wanted translation. Raises `InvalidRequest`."""

    @abstractmethod
    def answer(self, done: Translated) -> object:
        """Return the answer, in the shape that the client reads."""


@dataclass(frozen=True)
class Exchange:
    """A row of the table: a path and its request, which builds the answer."""

    path: str
    summary: str
    body: type[ForeignBody]
    names: FieldNames
    error: type[BaseModel] = ErrorResponse
    methods: Sequence[str] = ("POST",)


def names_of(text: str, source: str, target: str) -> FieldNames:
    """Return the field names of an exchange that detects the source if it is empty or `auto`."""
    return FieldNames(text, source, target, automatic=(AUTOMATIC, ""))


PAGE_OPTIONS: Final = TranslationOptions(copies_foreign=True)
"""Options for texts of web pages, which cannot show an error beside each text."""


def markup_options(markup: str | None) -> TranslationOptions:
    """Return options for a text of a web page in `html`, `xml` or, by default, no markup."""
    xml = XmlTags() if markup == "xml" else None
    return TranslationOptions(copies_foreign=True, is_html=markup == "html", xml=xml)
