"""Glossaries: lists of terms with prescribed translations, as files and as finders of terms in texts."""

import csv
import io
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, Literal

import regex

from service.text.segment import Term
from service.text.sentences import UNSPACED_LETTER

MAX_ENTRIES: Final = 10_000
LONGEST_TERM: Final = 200  # characters, of a term or a translation
_UNKNOWN: Final = "\U0010ffff"  # stands for tokens that no term contains

# To Python, four control characters are white space that patterns do not match.
VISIBLE: Final = r"[^\s\x1c-\x1f]"
"""A pattern for one character that is not white space; each term and each translation has one."""

# A word of a script with spaces between words, otherwise a single character; terms begin and end with whole tokens.
_TOKEN: Final = regex.compile(rf"[\w--{UNSPACED_LETTER}]+|{VISIBLE}", regex.VERSION1)


Format = Literal["tsv", "csv"]


class EntriesError(ValueError):
    """An error in a list of entries; the message names the line."""


def read_entries(text: str, format: Format) -> dict[str, str]:
    """Read a term and its translation from each line, as DeepL writes them: tab-separated, or CSV with quotes.

    Further columns of CSV are languages and ignored. Raises `EntriesError`.
    """
    entries: dict[str, str] = {}
    lines = io.StringIO(text, newline="")
    rows = csv.reader(lines) if format == "csv" else csv.reader(lines, csv.excel_tab, quoting=csv.QUOTE_NONE)
    try:
        for row in rows:
            cells = [*map(_normalize_space, row)]
            if not any(cells):
                continue
            if len(cells) < 2 or not all(cells[:2]) or (len(cells) > 2 and format == "tsv"):
                raise EntriesError(f"line {rows.line_num} is not a term and its translation")
            term, translation = cells[:2]
            if term in entries:
                raise EntriesError(f"line {rows.line_num} repeats a term: {term[:LONGEST_TERM]}")
            if max(len(term), len(translation)) > LONGEST_TERM:
                raise EntriesError(f"line {rows.line_num}: a side is longer than {LONGEST_TERM} characters")
            if len(entries) == MAX_ENTRIES:
                raise EntriesError(f"more than {MAX_ENTRIES} entries, the limit")
            entries[term] = translation
    except csv.Error as error:
        raise EntriesError(f"line {rows.line_num}: {error}") from None
    return entries


def write_entries(entries: Mapping[str, str]) -> str:
    """Write entries as TSV for `read_entries`."""
    return "\n".join(f"{term}\t{translation}" for term, translation in entries.items())


Finder = Callable[[str, Sequence[int]], Iterator[Term]]
"""Yields the terms of a text in its order, without overlaps; the second argument is where sentences start, sorted."""


class Glossary:
    """Finds its terms in texts, as whole words; of terms that begin at the same character, the longest.

    A term in lower case is also found in capitals, and with a first capital at the beginning of a sentence; other terms
    only as they are written. White space of any kind and length counts as one space. Words are not inflected: to
    translate "cats", a glossary needs "cats" in addition to "cat".
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        """`entries` maps each term to its translation, which must not be blank."""
        self._entries = {_normalize_space(term): _normalize_space(translation) for term, translation in entries.items()}
        self.translations: Final = tuple(dict.fromkeys(self._entries.values()))
        """The distinct translations."""
        self.numbers: Final = {translation: number for number, translation in enumerate(self.translations)}
        """The index of each translation in `translations`."""
        terms = [_spaced_tokens(term, _spans(term)) for term in self._entries]
        # Each token becomes a character: strings are compared at once, but lists item by item, for which an adversarial
        # glossary would take a hundred times as long. 10,000 terms of 200 characters have fewer distinct tokens than
        # Unicode has characters.
        self._letters = {token: chr(number) for number, token in enumerate(dict.fromkeys(chain.from_iterable(terms)))}
        self._prefixes = _PrefixIndex(map(self._encode, terms))
        self._first_tokens = {tokens[0].lower() for tokens in terms}
        self._longest_term = max(map(len, terms), default=0)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, text: str, beginnings: Sequence[int] = (0,)) -> Iterator[Term]:
        """Yield the terms of a text, as a `Finder` does."""
        spans = _spans(text) if self._entries else []
        written = _spaced_tokens(text, spans)
        lower = [token.lower() for token in written]
        as_written, in_lower = self._encode(written), self._encode(lower)
        not_capitals = _next_true(not f"A{token}".isupper() for token in written)
        changed = _next_true(token != other for token, other in zip(written, lower, strict=True))
        number = sentence = 0
        while number < len(spans):
            start, end = spans[number]
            # A quotation mark may precede the first word of a sentence.
            is_first = sentence < len(beginnings) and beginnings[sentence] <= start and text[start].isalnum()
            first, first_lower = written[number].lstrip(), lower[number].lstrip()
            if first_lower in self._first_tokens:
                last = number + self._longest_term
                exact = self._longest(first, as_written[number:last])
                capitals = self._longest(first_lower, in_lower[number : min(last, not_capitals[number])])
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
                sentence = bisect_left(beginnings, end)
            number += 1

    def _longest(self, first: str, encoded: str) -> int:
        """Return how many tokens of `encoded` form the longest term; `first` is the first one without its space."""
        return self._prefixes.longest(self._encode([first]) + encoded[1:]) if encoded else 0

    def _encode(self, tokens: Iterable[str]) -> str:
        return "".join(self._letters.get(token, _UNKNOWN) for token in tokens)


class _PrefixIndex:
    """Finds the longest of its strings that is a prefix of another string, by one binary search.

    The result is either the last string in sorted order that is not greater than the other, or a prefix of that one.
    """

    def __init__(self, sequences: Iterable[str]) -> None:
        self._sorted = sorted(sequences)
        self._shorter: list[int] = []
        """The index of the longest other string that is a prefix of each, or -1."""
        place = -1
        for number, sequence in enumerate(self._sorted):
            while place >= 0 and not sequence.startswith(self._sorted[place]):
                place = self._shorter[place]
            self._shorter.append(place)
            place = number

    def longest(self, other: str) -> int:
        """Return the length of the longest prefix of `other`, or 0."""
        place = bisect_right(self._sorted, other) - 1
        if place < 0:
            return 0
        nearest = self._sorted[place]
        # The number of characters in common, by another binary search.
        common = bisect_left(range(len(nearest)), True, key=lambda end: nearest[: end + 1] != other[: end + 1])
        while place >= 0 and len(self._sorted[place]) > common:
            place = self._shorter[place]
        return 0 if place < 0 else len(self._sorted[place])


EMPTY_GLOSSARY: Final = Glossary({})


def _normalize_space(words: str) -> str:
    return " ".join(words.split())


def _spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in _TOKEN.finditer(text)]


def _spaced_tokens(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return the tokens, each with one space before it if there is white space in the text."""
    previous = 0
    tokens = []
    for start, end in spans:
        tokens.append((" " if start > previous else "") + text[start:end])
        previous = end
    return tokens


def _next_true(flags: Iterable[bool]) -> list[int]:
    """Return for each index, the end included, the index of the next true flag from there on, or the end."""
    known = [*flags]
    following = [len(known)] * (len(known) + 1)
    for number in reversed(range(len(known))):
        following[number] = number if known[number] else following[number + 1]
    return following


def _is_in_capitals(words: str) -> bool:
    return words.isupper() and len(words) > 1


def _titled(lower: str) -> str:
    return lower[:1].upper() + lower[1:]
