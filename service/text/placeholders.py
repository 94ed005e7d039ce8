"""Copied parts of texts: URLs, placeholders, tags, emoji, rare symbols, words in other scripts."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import regex

from service.text.segment import Term
from service.text.syntaxes import BREAK, SYNTAXES
from service.text.unwritable import Unwritable

_SYMBOL: Final = regex.compile(
    r"[[\p{Sc}\p{Sm}\u00b2\u00b3\u00b9\u2070-\u209c\u00bc-\u00be\u2150-\u215e"
    r"\p{Extended_Pictographic}\p{Regional_Indicator}\u20e3]--[\u0000-\u007f€£]]",
    regex.V1,
)
# Matched one by one: all in one expression take six times as long. Signs by `re`, which searches in half the time.
_EXPRESSIONS: Final = {syntax.name: regex.compile(syntax.pattern, regex.V1) for syntax in SYNTAXES}
_SIGNS: Final = {syntax.name: re.compile(syntax.sign) for syntax in SYNTAXES if syntax.sign}
_SYMBOLIC: Final = [syntax.name for syntax in SYNTAXES if not syntax.sign]
_ANY_SIGN: Final = re.compile(
    r"[/\\@<{%$\[:&#`_]|-[0-9a-fA-F]{4}-|\.[a-z]|[A-Z]-?[0-9]|[a-z][A-Z]|[yYMdDHhms][-.][yYMdDHhms]|www\.|localhost|\(\)|\.N|UTF|\+\+|[0-9]\^"
)
"""Matches every text that one of `_SIGNS` matches, and few others; most sentences do not match."""
TAG: Final = _EXPRESSIONS["tag"]
_BREAKS: Final = regex.compile(rf"(?:{BREAK})+")
_GAP: Final = regex.compile("[ \u00a0]*")
_BRACKETS: Final = {"<": ">", "(": ")", "[": "]", "{": "}"}


def is_icu_message(text: str) -> bool:
    """Return True if the whole text is one ICU message."""
    return _EXPRESSIONS["ICU message"].fullmatch(text) is not None


def is_verbatim(text: str) -> bool:
    """Return True if the whole text is copied, such as `%s`."""
    return find_verbatim(text) == [(0, len(text))]


def find_breaks(text: str) -> Iterator[tuple[int, int]]:
    r"""Yield the spans of breaks that are written as escapes, such as `\n`, outside of other copied parts."""
    if "\\" not in text:
        return
    others = (match for name in _possible(text) if name != "escape" for match in _EXPRESSIONS[name].finditer(text))
    for found in _outside(_BREAKS.finditer(text), sorted(match.span() for match in others)):
        yield found.span()


def find_verbatim(text: str, unwritable: Unwritable | None = None, terms: Sequence[Term] = ()) -> list[tuple[int, int]]:
    """Return the spans of all copied parts, in the order of the text, with the words that a model cannot write.

    Words in the `terms` of a glossary are not copied: they have a translation. Neighbours are merged: a model
    that reads several placeholders in a row drops some.
    """
    spans = [match.span() for name in _possible(text) for match in _EXPRESSIONS[name].finditer(text)]
    if unwritable is not None:
        # Words in copied parts are left out: a path with a backslash ends where its syntax says.
        spans += unwritable.find(_without(text, [*((term.start, term.end) for term in terms), *spans]))
    return _merged(text, [_with_brackets(text, *span) for span in _merged(text, spans)])


def _merged(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and (start <= found[-1][1] or _GAP.fullmatch(text, found[-1][1], start)):
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _with_brackets(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span with the brackets that hold nothing else: a model closes them before it writes their content."""
    while start > 0 and end < len(text) and _BRACKETS.get(text[start - 1]) == text[end]:
        start, end = start - 1, end + 1
    return start, end


def _possible(text: str) -> Iterator[str]:
    """Yield the syntaxes that may occur in the text; the search for a sign takes far less time than a match."""
    if _ANY_SIGN.search(text) is not None:
        yield from (name for name, sign in _SIGNS.items() if sign.search(text) is not None)
    if not text.isascii() and _SYMBOL.search(text) is not None:
        yield from _SYMBOLIC


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the text with spaces instead of the characters in the given spans."""
    if not spans:
        return text
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)


_TAG: Final = regex.compile(
    rf"{_EXPRESSIONS['tag'].pattern}|\[/?[a-z][\w-]{{0,20}}(?:[=\s][^\[\]\n]{{0,200}})?\]|\{{/?[a-z][\w-]{{0,20}}\}}"
)


def find_tags(text: str) -> list[regex.Match[str]]:
    """Return the tags, in angle, square or curly brackets, in the order of the text; not those in code or a URL."""
    copied = (match for name in _possible(text) for match in _EXPRESSIONS[name].finditer(text))
    others = sorted(match.span() for match in copied if _TAG.fullmatch(match[0]) is None)
    return [*_outside(_TAG.finditer(text), others)]


def _outside(matches: Iterable[regex.Match[str]], others: Sequence[tuple[int, int]]) -> Iterator[regex.Match[str]]:
    """Yield the matches that do not begin inside of the other spans; both come in the order of the text."""
    covered = number = 0
    for match in matches:
        while number < len(others) and others[number][0] < match.start():
            covered = max(covered, others[number][1])
            number += 1
        if covered <= match.start():
            yield match
