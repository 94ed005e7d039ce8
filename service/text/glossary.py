"""Words whose translation somebody has laid down."""

import csv
import io
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, Literal, Protocol

import regex

from service.text.segment import Term
from service.text.sentences import WITHOUT_SPACES

MAX_ENTRIES: Final = 10_000
LONGEST_TERM: Final = 200  # characters, of either side
_UNKNOWN: Final = "\U0010ffff"  # what no term has

# Python takes four control characters for white space that patterns do not.
VISIBLE: Final = r"[^\s\x1c-\x1f]"
"""An expression for what is in every term and every translation."""

# A word of a script that parts words by spaces, or else a single character; terms begin and end with whole ones.
_TOKEN: Final = regex.compile(rf"[\w--{WITHOUT_SPACES}]+|{VISIBLE}", regex.VERSION1)


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
            if len(entries) == MAX_ENTRIES:
                raise EntriesError(f"more than {MAX_ENTRIES}, which is the limit")
            entries[term] = translation
    except csv.Error as error:
        raise EntriesError(f"line {rows.line_num}: {error}") from None
    return entries


def write_entries(entries: Mapping[str, str]) -> str:
    """As `read_entries` reads TSV."""
    return "\n".join(f"{term}\t{translation}" for term, translation in entries.items())


class _Tabs(csv.Dialect):
    """No quoting."""

    delimiter = "\t"
    lineterminator = "\n"
    quoting = csv.QUOTE_NONE


class Finder(Protocol):
    """Finds terms in texts."""

    def find(self, text: str, beginnings: Sequence[int] = (0,)) -> Iterator[Term]:
        """In the order of the text; none overlap. Its sentences begin at the places `beginnings`, in their order."""
        ...


class Glossary:
    """Finds its terms in texts, as whole words; where several begin, the longest.

    A term in lower case is also found all in capitals, and with a capital at the beginning of a sentence; others only
    as they are written. White space of any kind and length counts as one space. Words are found in the given form only:
    who wants "cats" translated gives it beside "cat".
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        """The translation of each term; none is blank."""
        self._entries = {_plain(term): _plain(translation) for term, translation in entries.items()}
        self.translations: Final = tuple(dict.fromkeys(self._entries.values()))
        """Each once."""
        self.numbers: Final = {translation: number for number, translation in enumerate(self.translations)}
        """Those of the translations."""
        terms = [_pieces(term, _spans(term)) for term in self._entries]
        self._letters = _Letters(terms)
        self._terms = _Beginnings(map(self._letters.spelled, terms))
        self._firsts = {pieces[0].lower() for pieces in terms}
        self._most = max(map(len, terms), default=0)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, text: str, beginnings: Sequence[int] = (0,)) -> Iterator[Term]:
        """As of a `Finder`."""
        spans = _spans(text) if self._entries else []
        written = _pieces(text, spans)
        lower = [piece.lower() for piece in written]
        as_written, in_lower = self._letters.spelled(written), self._letters.spelled(lower)
        small = _next_places(not f"A{piece}".isupper() for piece in written)
        changed = _next_places(piece != other for piece, other in zip(written, lower, strict=True))
        number = begun = 0
        while number < len(spans):
            start, end = spans[number]
            # A quotation mark may precede the first word of a sentence.
            is_first = begun < len(beginnings) and beginnings[begun] <= start and text[start].isalnum()
            first, first_lower = written[number].lstrip(), lower[number].lstrip()
            if first_lower in self._firsts:
                last = number + self._most
                exact = self._longest(first, as_written[number:last])
                capitals = self._longest(first_lower, in_lower[number : min(last, small[number])])
                if not _is_in_capitals(text[start : spans[number + capitals - 1][1]]):
                    capitals = 0
                if is_first and first == _titled(first_lower):
                    titled = self._longest(first_lower, in_lower[number : min(last, changed[number + 1])])
                    capitals = max(capitals, titled)
                if found := max(exact, capitals):
                    term = "".join((written if found == exact else lower)[number : number + found]).lstrip()
                    number += found - 1
                    end = spans[number][1]
                    in_capitals = found > exact and _is_in_capitals(text[start:end])
                    yield Term(start, end, self._entries[term], capitals=in_capitals)
            if is_first:
                begun = bisect_left(beginnings, end)
            number += 1

    def _longest(self, first: str, spelled: str) -> int:
        """How many pieces the longest term has that these begin with, of which `first` has no space before it."""
        return self._terms.longest(self._letters.spelled([first]) + spelled[1:]) if spelled else 0


class _Letters:
    """Spells pieces with a single character each, so that comparing many is comparing two strings.

    A list is compared piece by piece: terms and texts made for it would take a hundred times as long.
    """

    def __init__(self, terms: Iterable[Iterable[str]]) -> None:
        # 10,000 terms of 200 characters have fewer pieces than there are characters.
        self._letters = {piece: chr(number) for number, piece in enumerate(dict.fromkeys(chain.from_iterable(terms)))}

    def spelled(self, pieces: Iterable[str]) -> str:
        return "".join(self._letters.get(piece, _UNKNOWN) for piece in pieces)


class _Beginnings:
    """Finds the longest of its sequences that another begins with: that is the last which is not behind the other in
    their order, or one that this itself begins with. So it takes no longer for being asked at every token.
    """

    def __init__(self, sequences: Iterable[str]) -> None:
        self._sorted = sorted(sequences)
        self._shorter: list[int] = []
        """The longest other that each begins with, or -1."""
        place = -1
        for number, sequence in enumerate(self._sorted):
            while place >= 0 and not sequence.startswith(self._sorted[place]):
                place = self._shorter[place]
            self._shorter.append(place)
            place = number

    def longest(self, other: str) -> int:
        """Its length; 0 if there is none."""
        place = bisect_right(self._sorted, other) - 1
        if place < 0:
            return 0
        nearest = self._sorted[place]
        # So many characters are the same: the first at which more are not.
        common = bisect_left(range(len(nearest)), True, key=lambda end: nearest[: end + 1] != other[: end + 1])
        while place >= 0 and len(self._sorted[place]) > common:
            place = self._shorter[place]
        return 0 if place < 0 else len(self._sorted[place])


NOTHING: Final = Glossary({})


def _plain(words: str) -> str:
    return " ".join(words.split())


def _spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in _TOKEN.finditer(text)]


def _pieces(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The tokens, each with a space before it if there is white space; together they are the text, plain."""
    previous = 0
    pieces = []
    for start, end in spans:
        pieces.append((" " if start > previous else "") + text[start:end])
        previous = end
    return pieces


def _next_places(marks: Iterable[bool]) -> list[int]:
    """Of each place, and of the end, the next from there on that is marked; the end if there is none."""
    known = [*marks]
    places = [len(known)] * (len(known) + 1)
    for number in reversed(range(len(known))):
        places[number] = number if known[number] else places[number + 1]
    return places


def _is_in_capitals(words: str) -> bool:
    return words.isupper() and len(words) > 1


def _titled(lower: str) -> str:
    return lower[:1].upper() + lower[1:]
