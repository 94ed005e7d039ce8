"""Segments, the units a text is split into, and the part of each that a model reads. Knows no markup and no models."""

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final, Literal, NamedTuple

import regex
from msgspec import Struct

from service.text.readings import Reading, readings

_TWO_LETTERS: Final = re.compile(r"[^\W\d_]{2}")
# Not the signs of trade marks and copyright, which belong to a name.
_PICTOGRAPHS: Final = regex.compile(
    r"(?:[[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}]--[©®™]]|[0-9#*]\ufe0f?\u20e3"
    r"|[\s\u200d\ufe0f\u20e3\U000e0020-\U000e007f])+",
    regex.V1,
)
_MORE_MARKS: Final = regex.compile(r"(?:(?<=[?!？！])[?!？！]+|(?<=\.{3})\.+)$")
_ENUMERATION: Final = re.compile(r"\(?(?:[IVX]{1,5}|[ivx]{1,5}|[A-Za-z])[.)]")
_SPACES: Final = re.compile(r"[ \t\r\n]+")

STAND_IN: Final = "X"
"""The word a model reads instead of copied characters. Of the words tried, it disturbs the translation least."""


class Term(NamedTuple):
    """Characters `start` to `end` of a sentence, whose translation is known."""

    start: int
    end: int
    translation: str
    is_copy: bool = False
    """True for copied text: the model reads a placeholder, and `translation` is written unchanged."""
    capitals: bool = False
    """True if the translation is written in capitals."""
    as_placeholder: bool = False
    """True for a term of a glossary that the model does not read: it reads a placeholder."""

    @property
    def has_placeholder(self) -> bool:
        """True if the model reads and writes a placeholder for it."""
        return self.is_copy or self.as_placeholder


class Mark(NamedTuple):
    """A tag in a sentence: around characters `start` to `end`, or between two characters if both are equal."""

    start: int
    end: int
    opening: str
    closing: str = ""
    inside: Sequence["Mark"] = ()
    """The marks it contains, in the order of the sentence."""


class Aligned(NamedTuple):
    """A part of a translation, escaped for output, and the position in the sentence of the character it comes from."""

    text: str
    place: int | None


Encoding = Literal["plain", "html", "xml", "attribute"]
"""The way characters are written: unchanged, or with character references instead of markup characters."""


class ModelInput(NamedTuple):
    """The text that a model reads for a segment, and its map to the sentence. All spans are start and end."""

    text: str
    terms: Sequence[tuple[int, int]]
    """The span of each of the segment's terms in `text`."""
    replaced: Sequence["_Replaced"]
    """The terms and readings, in the order of the sentence."""

    def sentence_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the sentence that characters `start` to `end` of `text` stand for."""
        first, last = start, end
        for original, inside, whole in self.replaced:
            if start >= whole[0]:
                first = original[0] if start < inside[1] else max(start - whole[1], 0) + original[1]
            if end > whole[0]:
                last = original[1] if end <= whole[1] else end - whole[1] + original[1]
        return first, last


class _Replaced(NamedTuple):
    """The span of a term or reading in the sentence, and its spans in the text that a model reads."""

    original: tuple[int, int]
    inside: tuple[int, int]
    whole: tuple[int, int]
    """With the spaces that were added around a placeholder."""


class Match(Struct, frozen=True):
    """A unit of a translation memory that is like a sentence: `score` is the per cent of equal characters."""

    source: str
    target: str
    score: float


class Segment(NamedTuple):
    """A sentence, and the text around it between sentences: white space, a bullet, block tags."""

    before: str
    sentence: str
    after: str
    translatable: bool = True
    """False if the sentence has nothing to translate or cannot be cut to fit: it is copied."""
    capitals: bool = False
    """True if the model reads it in lower case and its translation is written in capitals."""
    terms: Sequence[Term] = ()
    """Sorted by position in the sentence, without overlaps."""
    marks: Sequence[Mark] = ()
    """The outermost marks, in the order of the sentence."""
    encoding: Encoding = "plain"
    raw: str | None = None
    """The source of the sentence, if it differs from `sentence`."""
    languages: tuple[str, str] = ("", "")
    """The languages of the sentence and its translation, which write numbers differently; empty if unknown."""
    separator: str = ""
    """Text that separates its translation from the previous one; not a part of the source text."""
    remembered: str | None = None
    """Its translation in a translation memory, as the text writes it; no model is asked then."""
    matches: Sequence[Match] | None = None
    """The units of a translation memory that are most like it; None unless they were asked for."""

    @property
    def source_sentence(self) -> str:
        """The sentence as the source text writes it."""
        return self.sentence if self.raw is None else self.raw

    @property
    def text(self) -> str:
        """The part of the source text that the segment stands for."""
        return self.before + self.source_sentence + self.after

    @property
    def copied_text(self) -> str:
        """The output where the segment is copied or remembered instead of translated."""
        words = self.source_sentence if self.remembered is None else self.remembered
        return self.separator + self.before + words + self.after

    def tags(self) -> Iterator[tuple[int, str]]:
        """Yield the tags of the marks with their positions in the sentence; a mark without an end has one tag "".

        They come in the order of the text.
        """
        return _tags(self.marks)

    def source_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of characters `start` to `end` of the sentence in its source, which has its marks, too."""
        if self.encoding == "plain" and self.marks:
            start += sum(len(tag) for place, tag in _tags(self.marks) if place <= start)
            end += sum(len(tag) for place, tag in _tags(self.marks) if place < end)
        return start, end

    def model_input(self) -> ModelInput:
        """Replace terms by placeholders, spellings by their readings, and capitals by lower case."""
        sentence = _sentence_case(self.sentence) if self.capitals else self.sentence
        words, done = "", 0
        replaced: list[_Replaced] = []
        terms: list[tuple[int, int]] = []
        for each in self._replacements():
            words += sentence[done : each.start]
            start = len(words)
            is_placeholder = isinstance(each, Term) and each.has_placeholder
            # A model reads XusX as one word.
            before, after = sentence[max(each.start - 1, 0) : each.start], sentence[each.end : each.end + 1]
            words += " " if is_placeholder and is_word_character(before) and done < each.start else ""
            if isinstance(each, Reading):
                inside = each.text
            else:
                inside = STAND_IN if is_placeholder else sentence[each.start : each.end]
                terms.append((len(words), len(words) + len(inside)))
            place = (len(words), len(words) + len(inside))
            words += inside + (" " if is_placeholder and is_word_character(after) else "")
            replaced.append(_Replaced((each.start, each.end), place, (start, len(words))))
            done = each.end
        return ModelInput(words + sentence[done:], terms, replaced)

    def _replacements(self) -> Sequence[Term | Reading]:
        """Return the terms, and the readings of what is no term, in the order of the sentence."""
        in_capitals = is_in_capitals(self.sentence)
        read = readings(self.sentence, self.languages, in_capitals=in_capitals)
        if not read:
            return self.terms
        if in_capitals and not self.capitals:  # then the model reads capitals
            read = [each._replace(text=each.text.upper()) for each in read]
        free = [each for each in read if all(each.end <= term.start or term.end <= each.start for term in self.terms)]
        return sorted([*self.terms, *free], key=lambda each: each.start)

    @property
    def renders_as_is(self) -> bool:
        """True if `render` changes nothing."""
        return not self.capitals and self.encoding == "plain"

    def render(self, text: str) -> str:
        """Restore capitals and escape a part of the translation; rendering by parts gives the same as all at once."""
        text = text.upper() if self.capitals else text
        return text if self.encoding == "plain" else escape(text, quote=self.encoding == "attribute")


Fits = Callable[[Segment], bool]
"""A function that returns True if a segment is short enough for the model."""


def segment_of(part: str, terms: Sequence[Term], *, restore_capitals: bool) -> Segment:
    """Make a segment of a part of a text and the terms in it.

    Emoji around the sentence and all but the first of its final marks (`???`) are not part of it: a model moves the
    ones, and multiplies the others.
    """
    terms = [*terms]
    start, end = _trimmed(part, 0, len(part))
    while terms and terms[-1].end == end and _PICTOGRAPHS.fullmatch(part, terms[-1].start, end):
        start, end = _trimmed(part, start, terms.pop().start)
    while terms and terms[0].start == start and _PICTOGRAPHS.fullmatch(part, start, terms[0].end):
        start, end = _trimmed(part, terms.pop(0).end, end)
    if (more := _MORE_MARKS.search(part, start, end)) is not None:
        end = more.start()
    sentence = part[start:end]
    inside = [term._replace(start=term.start - start, end=term.end - start) for term in terms]
    words = _without_copies(sentence, inside)
    if not has_words(words) or _ENUMERATION.fullmatch(sentence):
        start, end = _trimmed(part, 0, len(part))
        return Segment(part[:start], part[start:end], part[end:], translatable=False)
    capitals = restore_capitals and is_in_capitals(words)
    return Segment(part[:start], sentence, part[end:], capitals=capitals, terms=inside)


def _trimmed(part: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space at its beginning and end."""
    words = part[start:end]
    return start + len(words) - len(words.lstrip()), start + max(len(words.rstrip()), len(words) - len(words.lstrip()))


def with_single_spaces(text: str) -> str:
    """Return a text with one space for each run of spaces and line breaks; no-break spaces stay."""
    # Most texts have no such run, and the test takes a tenth of the time.
    has_runs = "  " in text or "\n" in text or "\t" in text or "\r" in text
    return _SPACES.sub(" ", text) if has_runs else text


def is_word_character(character: str) -> bool:
    """Return True for digits and cased letters, which form one word with their neighbours."""
    return character.isdigit() or character.lower() != character.upper()


def has_words(text: str) -> bool:
    """Return True if there is a letter; numbers, emoji and punctuation do not count as words."""
    return any(character.isalpha() for character in text)


def is_in_capitals(sentence: str) -> bool:
    """Return True for several words in capitals if one of them has at least two letters.

    A single word in capitals is most often an acronym, which stays unchanged.
    """
    # The cheapest test first: most sentences fail it.
    return (
        sentence.isupper() and sum(map(has_words, sentence.split())) > 1 and _TWO_LETTERS.search(sentence) is not None
    )


def _tags(marks: Sequence[Mark]) -> Iterator[tuple[int, str]]:
    """Yield the tags of marks with their positions."""
    for mark in marks:
        yield mark.start, mark.opening
        yield from _tags(mark.inside)
        yield mark.end, mark.closing


def _without_copies(sentence: str, terms: Sequence[Term]) -> str:
    parts, done = [], 0
    for term in terms:
        if term.is_copy:
            parts.append(sentence[done : term.start])
            done = term.end
    return " ".join([*parts, sentence[done:]])


def _sentence_case(sentence: str) -> str:
    """Convert all but the first letter to lower case; every character keeps its position."""
    first = next((place for place, character in enumerate(sentence) if character.isalpha()), 0)
    # A few capitals become two characters in lower case; they stay.
    return sentence[: first + 1] + "".join(
        lower if len(lower := character.lower()) == 1 else character for character in sentence[first + 1 :]
    )
