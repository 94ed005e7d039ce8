"""Words whose translation somebody has laid down."""

import csv
import io
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import regex

from service.text.segment import Term
from service.text.sentences import WITHOUT_SPACES

MAX_ENTRIES: Final = 10_000
LONGEST_TERM: Final = 200  # characters, of either side

# A word of a script that parts words by spaces, or else a single character; terms begin and end with whole ones.
_TOKEN: Final = regex.compile(rf"[\w--{WITHOUT_SPACES}]+|\S", regex.VERSION1)


Format = Literal["tsv", "csv"]


class EntriesError(ValueError):
    """Says which line of a list of entries is wrong."""


def read_entries(text: str, format: Format) -> dict[str, str]:
    """A term and its translation on each line, as DeepL has them: parted by a tab, or by a comma with quotes as needed.

    Further columns of CSV are languages, and not looked at. Raises `EntriesError`.
    """
    dialect: type[csv.Dialect] = csv.excel if format == "csv" else _Tabs
    entries: dict[str, str] = {}
    rows = csv.reader(io.StringIO(text, newline=""), dialect)
    try:
        for row in rows:
            cells = [*map(_plain, row)]
            if not any(cells):
                continue
            if len(cells) < 2 or not all(cells[:2]) or (len(cells) > 2 and format == "tsv"):
                raise EntriesError(f"line {rows.line_num} is not a term and its translation")
            term, translation = cells[:2]
            if term in entries:
                raise EntriesError(f"line {rows.line_num} has a term that was there before: {term[:LONGEST_TERM]}")
            if max(len(term), len(translation)) > LONGEST_TERM:
                raise EntriesError(f"line {rows.line_num} is longer than {LONGEST_TERM} characters on one side")
            entries[term] = translation
    except csv.Error as error:
        raise EntriesError(f"line {rows.line_num}: {error}") from None
    if len(entries) > MAX_ENTRIES:
        raise EntriesError(f"{len(entries)} entries, the limit is {MAX_ENTRIES}")
    return entries


def write_entries(entries: Mapping[str, str]) -> str:
    """As `read_entries` reads TSV."""
    return "\n".join(f"{term}\t{translation}" for term, translation in entries.items())


class _Tabs(csv.Dialect):
    """No quoting."""

    delimiter = "\t"
    lineterminator = "\n"
    quoting = csv.QUOTE_NONE


class Glossary:
    """Finds its terms in texts, as whole words; where several begin, the longest.

    A term in lower case is also found all in capitals, and with a capital at the beginning of a sentence; others only
    as they are written. White space of any kind and length counts as one space. Words are found in the given form only:
    who wants "cats" translated gives it beside "cat".
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        """The translation of each term; none is blank."""
        self._entries = {_plain(term): _plain(translation) for term, translation in entries.items()}
        counts: dict[str, set[int]] = {}
        for term in self._entries:
            tokens = _TOKEN.findall(term)
            counts.setdefault(tokens[0].lower(), set()).add(len(tokens))
        # How many tokens the terms have that begin with a token, the most first.
        self._counts = {first: sorted(each, reverse=True) for first, each in counts.items()}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, text: str, beginnings: Sequence[int] = (0,)) -> Iterator[Term]:
        """In the order of the text; none overlap. Its sentences begin at the places `beginnings`, in their order."""
        tokens = [match.span() for match in _TOKEN.finditer(text)] if self._entries else []
        number = begun = 0
        while number < len(tokens):
            start, end = tokens[number]
            # A quotation mark may precede the first word of a sentence.
            is_first = begun < len(beginnings) and beginnings[begun] <= start and text[start].isalnum()
            for count in self._counts.get(text[start:end].lower(), ()):
                last = number + count
                if last <= len(tokens) and (term := self._term(text, start, tokens[last - 1][1], is_first)):
                    yield term
                    number, end = last - 1, term.end
                    break
            if is_first:
                begun = bisect_left(beginnings, end)
            number += 1

    def _term(self, text: str, start: int, end: int, is_first: bool) -> Term | None:
        """What is from `start` up to `end`, if it is one."""
        words = _plain(text[start:end])
        if words in self._entries:
            return Term(start, end, self._entries[words])
        lower = words.lower()
        translation = self._entries.get(lower)
        capitals = words.isupper() and len(words) > 1
        if translation is None or not (capitals or (is_first and words == lower[:1].upper() + lower[1:])):
            return None
        return Term(start, end, translation, capitals=capitals)


NOTHING: Final = Glossary({})


def _plain(words: str) -> str:
    return " ".join(words.split())
