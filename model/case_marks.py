"""Upper case as marks before lower-case words, so that `Hello`, `hello` and `HELLO` share their pieces.

A mark is one character of the private use area. It stands before its word, and before the space in front of that word:
`Hello NATO` becomes `T hello U nato`, with a space before the first word as before every other. Marking loses nothing
but the form of white space: `CaseRestorer` gives the text back, character by character, which is what a stream needs.
Knows nothing of pieces or models. After the case encoding of Marian NMT.
"""

import functools
import re
import unicodedata
from typing import Final, NamedTuple

import regex

TITLE: Final = "\ue000"
"""The next letter is upper case."""
UPPER: Final = "\ue001"
"""All letters of the next word are upper case."""
UPPER_BEGIN: Final = "\ue002"
"""All letters are upper case from here on, to `UPPER_END` or the end of the text."""
UPPER_END: Final = "\ue003"
LITERAL: Final = "\ue004"
"""The next character is a mark in the text itself."""

CASE_MARKS: Final = (TITLE, UPPER, UPPER_BEGIN, UPPER_END, LITERAL)

_WORD: Final = re.compile(r"[^\W\d_]+")
_MARK: Final = re.compile("([" + "".join(CASE_MARKS) + "])")
_SPACES: Final = re.compile(r"\s+")
_CLUSTER: Final = regex.compile(r"\X")


class MarkedText(NamedTuple):
    """A text with case marks; character i comes from character `offsets[i]` of the text before."""

    text: str
    offsets: list[int]


def mark_case(text: str) -> MarkedText:
    """Lower-case `text`, with marks, single spaces (NFKC), and a space before the first word.

    A text without any word or sign is empty.
    """
    text, offsets = _normalised(text)
    out: list[str] = []
    origins: list[int] = []

    def copy(start: int, end: int) -> None:
        out.append(text[start:end])
        origins.extend(offsets[start:end])

    def put(mark: str, position: int) -> None:
        """A mark stands before the space in front of its word."""
        if out and out[-1].endswith(" "):
            out[-1] = out[-1][:-1]
            out.append(f"{mark} ")
            origins.insert(-1, offsets[position])
        else:
            out.append(mark)
            origins.append(offsets[position])

    done = 0
    in_capitals_until = -1
    words = list(_WORD.finditer(text)) if text != text.lower() else []
    for number, word in enumerate(words):
        start, end = word.span()
        copy(done, start)
        done = end
        if start >= in_capitals_until:
            last = _last_of_capitals(words, number)
            if last is not None:
                in_capitals_until = words[last].end()
                put(UPPER_BEGIN, start)
        if start < in_capitals_until:
            out.append(_lowered(word[0]))
            origins.extend(offsets[start:end])
            if end == in_capitals_until and any(_has_case(later[0]) for later in words[number + 1 :]):
                out.append(UPPER_END)
                origins.append(offsets[end - 1])
            continue
        for mark, part_start, part_end in _parts(word[0]):
            if mark:
                put(mark, start + part_start)
            out.append(_lowered(word[0][part_start:part_end]))
            origins.extend(offsets[start + part_start : start + part_end])
    copy(done, len(text))
    return MarkedText("".join(out), origins)


def _normalised(text: str) -> MarkedText:
    """NFKC, white space as single spaces, one of them in front, marks of the text itself escaped."""
    offsets: list[int] | range = range(len(text))
    if not unicodedata.is_normalized("NFKC", text):
        clusters = [(unicodedata.normalize("NFKC", found[0]), found.start()) for found in _CLUSTER.finditer(text)]
        offsets = [start for cluster, start in clusters for _ in cluster]
        text = "".join(cluster for cluster, _ in clusters)
    out: list[str] = []
    origins: list[int] = []
    position = 0
    for part in _SPACES.split(text.strip()):
        if not part:
            continue
        found = text.index(part, position)
        position = found + len(part)
        out.append(" ")
        origins.append(offsets[found])
        for piece in _MARK.split(part):
            if _MARK.fullmatch(piece):
                out.append(LITERAL)
                origins.append(offsets[found])
            out.append(piece)
            origins.extend(offsets[found : found + len(piece)])
            found += len(piece)
    return MarkedText("".join(out), origins)


def _last_of_capitals(words: list[re.Match[str]], first: int) -> int | None:
    """The last word of a passage in capitals that begins with word `first`, if two of its words are so at least."""
    last, count = None, 0
    for number in range(first, len(words)):
        kind = _kind(words[number][0])
        if kind == "other" or (kind == "none" and number == first):
            break
        if kind != "none":
            last = number
            count += kind == "upper"
    return last if count > 1 else None


def is_upper(letter: str) -> bool:
    """True for a letter whose lower case is one letter that gives it back."""
    lower = letter.lower()
    return lower != letter and len(lower) == 1 and lower.upper() == letter and letter.isalpha() and lower.isalpha()


def is_lower(letter: str) -> bool:
    """True for a letter whose upper case is one letter that gives it back."""
    upper = letter.upper()
    return upper != letter and len(upper) == 1 and is_upper(upper) and upper.lower() == letter


def _has_case(word: str) -> bool:
    return _kind(word) != "none"


@functools.lru_cache(maxsize=100_000)
def _kind(word: str) -> str:
    """`upper` for two capitals or more and nothing else, `single` for one capital; `none` for no case, or `other`."""
    upper, lower = sum(map(is_upper, word)), sum(map(is_lower, word))
    if not upper + lower:
        return "none"
    if lower:
        return "other"
    return "upper" if upper > 1 else "single"


@functools.lru_cache(maxsize=100_000)
def _lowered(word: str) -> str:
    return "".join(letter.lower() if is_upper(letter) else letter for letter in word)


@functools.lru_cache(maxsize=100_000)
def _parts(word: str) -> tuple[tuple[str, int, int], ...]:
    """The parts of a word that is not in a passage of capitals, each with its mark or "": mark, from, up to."""
    if _kind(word) == "upper":
        return ((UPPER, 0, len(word)),)
    starts = [0, *(i for i in range(1, len(word)) if is_upper(word[i]))]
    ends = [*starts[1:], len(word)]
    return tuple((TITLE if is_upper(word[a]) else "", a, b) for a, b in zip(starts, ends, strict=True))


class CaseRestorer:
    """Gives marked text its capitals back, as it comes; what it has returned never changes."""

    def __init__(self) -> None:
        self._pending = ""  # a mark whose word has not begun
        self._in_word = False  # of a word in capitals
        self._in_capitals = False
        self._literal = False

    def push(self, text: str) -> str:
        """The next part of the text, without marks."""
        if not (self._pending or self._in_word or self._in_capitals or self._literal or _MARK.search(text)):
            return text
        return "".join(map(self._next, text))

    def _next(self, character: str) -> str:
        if self._literal:
            self._literal = False
            return character
        if character in CASE_MARKS:
            self._mark(character)
            return ""
        if not character.isalpha():
            self._in_word = False
            if character != " ":
                self._pending = ""
            return character
        pending, self._pending = self._pending, ""
        self._in_word = self._in_word or pending == UPPER
        if (pending or self._in_word or self._in_capitals) and is_lower(character):
            return character.upper()
        return character

    def _mark(self, mark: str) -> None:
        self._in_word = False
        if mark == LITERAL:
            self._literal = True
        elif mark in (UPPER_BEGIN, UPPER_END):
            self._in_capitals = mark == UPPER_BEGIN
        else:
            self._pending = mark
