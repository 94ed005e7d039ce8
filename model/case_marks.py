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
VISIBLE: Final = {TITLE: "⇧", UPPER: "⇪", UPPER_BEGIN: "⇪", UPPER_END: "⇩", LITERAL: "⎋"}
"""Each mark for people who look at single tokens."""

_WORD: Final = re.compile(r"[^\W\d_]+")
_MARK: Final = re.compile("([" + "".join(CASE_MARKS) + "])")
# SentencePiece's rules (nmt_nfkc) make spaces of the others: invisible characters, its own mark and U+FFFD.
SPACES: Final = re.compile(r"[\s\u061c\u200b\u200c\u200e\u200f\u2581\ufeff\ufffd]+")
_CLUSTER: Final = regex.compile(r"\X")
# Nearly all sentences: NFKC leaves them as they are, and no word has two capitals side by side.
_CAPITAL: Final = "[A-ZÀ-ÖØ-Þ]"
_PLAIN: Final = re.compile("[ -~À-ÖØ-öø-ÿ‘’“”–—]*")
_TWO_CAPITALS: Final = re.compile(_CAPITAL * 2)
_CAPITAL_AND_SPACE: Final = re.compile(f" ?{_CAPITAL}")


class MarkedText(NamedTuple):
    """A text with case marks; character i comes from character `offsets[i]` of the text before."""

    text: str
    offsets: list[int]


def mark_case(text: str) -> MarkedText:
    """Lower-case `text`, with marks, single spaces (NFKC), and a space before the first word.

    A text without any word or sign is empty.
    """
    marked = _Marking(*_normalised(text))
    words = list(_WORD.finditer(marked.text)) if marked.text != marked.text.lower() else []
    capitals_end = -1  # of the passage in capitals that the present word is in
    for number, word in enumerate(words):
        start, end = word.span()
        marked.copy_to(start)
        if start > capitals_end and (last := _last_of_capitals(words, number)) is not None:
            capitals_end = words[last].end()
            marked.mark(UPPER_BEGIN)
        if start < capitals_end:
            marked.lower_to(end)
            if end == capitals_end and any(_kind(later[0]) != "none" for later in words[number + 1 :]):
                marked.append(UPPER_END)
            continue
        for mark, part_end in _parts(word[0]):
            if mark:
                marked.mark(mark)
            marked.lower_to(start + part_end)
    marked.copy_to(len(marked.text))
    return MarkedText("".join(marked.out), marked.origins)


def mark_text(text: str) -> str:
    """Return the text of `mark_case`, which is many times as fast without the offsets."""
    if not _PLAIN.fullmatch(text) or _TWO_CAPITALS.search(text):
        return mark_case(text).text
    single_spaced = "".join(f" {part}" for part in text.split())
    return _CAPITAL_AND_SPACE.sub(lambda found: TITLE + found[0].lower(), single_spaced)


def has_marks(text: str) -> bool:
    return _MARK.search(text) is not None


class _Marking:
    """The marked output, and the position reached in the input."""

    def __init__(self, text: str, offsets: list[int]) -> None:
        self.text = text
        self._offsets = [*offsets, offsets[-1] if offsets else 0]
        self._done = 0
        self.out: list[str] = []
        self.origins: list[int] = []

    def copy_to(self, end: int) -> None:
        """Take the text up to `end` as it is."""
        self.out.append(self.text[self._done : end])
        self.origins += self._offsets[self._done : end]
        self._done = end

    def lower_to(self, end: int) -> None:
        """Take the text up to `end` in lower case."""
        self.out.append(_lowered(self.text[self._done : end]))
        self.origins += self._offsets[self._done : end]
        self._done = end

    def append(self, mark: str) -> None:
        self.out.append(mark)
        self.origins.append(self._offsets[self._done])

    def mark(self, mark: str) -> None:
        """Put a mark before the text that comes next, and before the space in front of that."""
        if self.out and self.out[-1].endswith(" "):
            self.out[-1] = f"{self.out[-1][:-1]}{mark} "
            self.origins.insert(-1, self._offsets[self._done])
        else:
            self.append(mark)


def _normalised(text: str) -> MarkedText:
    """Normalise to NFKC, collapse white space, add a leading space, escape marks."""
    offsets: list[int] | range = range(len(text))
    if not unicodedata.is_normalized("NFKC", text):
        clusters = [(unicodedata.normalize("NFKC", found[0]), found.start()) for found in _CLUSTER.finditer(text)]
        offsets = [start for cluster, start in clusters for _ in cluster]
        text = "".join(cluster for cluster, _ in clusters)
    out: list[str] = []
    origins: list[int] = []
    position = 0
    for part in SPACES.split(text):
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
    """Return the last word of a passage in capitals from word `first` on, if at least two of its words are so."""
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
    """Return True for a letter whose lower case is one letter that gives it back."""
    lower = letter.lower()
    return lower != letter and len(lower) == 1 and lower.upper() == letter and letter.isalpha() and lower.isalpha()


def is_lower(letter: str) -> bool:
    """Return True for a letter whose upper case is one letter that gives it back."""
    upper = letter.upper()
    return upper != letter and len(upper) == 1 and is_upper(upper) and upper.lower() == letter


@functools.lru_cache(maxsize=100_000)
def _kind(word: str) -> str:
    """Return `upper` (all capitals, two or more), `single` (one capital), `none` (no cased letter), or `other`."""
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
def _parts(word: str) -> tuple[tuple[str, int], ...]:
    """Return the parts of a word outside passages of capitals: its mark or "", and where it ends."""
    if _kind(word) == "upper":
        return ((UPPER, len(word)),)
    starts = [0, *(i for i in range(1, len(word)) if is_upper(word[i]))]
    return tuple(
        (TITLE if is_upper(word[start]) else "", end)
        for start, end in zip(starts, [*starts[1:], len(word)], strict=True)
    )


class CaseRestorer:
    """Restores the capitals of marked text as it arrives; text already returned never changes."""

    def __init__(self) -> None:
        self._pending = ""  # a mark whose word has not begun
        self._in_word = False  # of a word in capitals
        self._in_capitals = False
        self._literal = False

    def push(self, text: str) -> str:
        """Return the next part of the text, without marks."""
        if not self.changes_text and not has_marks(text):
            return text
        return "".join(map(self._next, text))

    @property
    def changes_text(self) -> bool:
        """True after a mark that may change a text without marks; such a text changes nothing otherwise."""
        return bool(self._pending or self._in_word or self._in_capitals or self._literal)

    def _next(self, character: str) -> str:
        if self._literal:
            self._literal = False
            return character
        if character in CASE_MARKS:
            self._mark(character)
            return ""
        if not _WORD.fullmatch(character):
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
