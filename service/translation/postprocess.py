"""From token ids to text: the words of one version of a segment."""

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from typing import Final

from model.tokenizer import Detokenizer, Tokenizer
from service.engine.messages import TokenReport
from service.text.html.tag_placement import place_marks
from service.text.number_repair import NumberRepair
from service.text.segment import PLACEHOLDER, Aligned, Segment, Term, has_words, is_word_character
from service.text.sentences import is_unspaced

# That of an x-ray, too: rayons X.
_LIKE_PLACEHOLDER: Final = re.compile(rf"(?<![a-z]){PLACEHOLDER}(?![a-z])", re.IGNORECASE)
_APOSTROPHES: Final = ("'", "’")

Spans = Sequence[tuple[int, int] | None]
"""The characters that each token stands for, from and up to; None for one that stands for none."""


class Wording:
    """Turns the tokens of one version of a segment into text, one at a time; what it has returned never changes.

    Where tags have to be placed, all of it comes with the last token. `spans` are only needed then. The first `forced`
    tokens are the request's own words.
    """

    def __init__(self, segment: Segment, tokenizer: Tokenizer, spans: Spans, forced: int = 0) -> None:
        self._segment = segment
        self._forced = forced
        self._spans = spans
        self._detokenizer = Detokenizer(tokenizer)
        words = segment.model_input().text
        self._numbers = NumberRepair(words)
        # One more than there are, a model has made up.
        placeholders = sum(term.has_placeholder for term in segment.terms)
        self._drops_placeholders = 0 < placeholders == len(_LIKE_PLACEHOLDER.findall(words))
        self._held_placeholder = ""
        self._term: int | None = None
        self._said = segment.before
        self._is_first = True
        self._has_words = False
        self._aligned: list[Aligned] = []

    def copy(self) -> "Wording":
        """One that goes on from here by itself."""
        other = copy.copy(self)
        other._detokenizer, other._aligned = self._detokenizer.copy(), [*self._aligned]
        other._numbers = self._numbers.copy()
        return other

    def push(self, token: TokenReport, *, is_last: bool) -> str:
        segment = self._segment
        parts = [*self._parts(token)]
        if is_last:
            rest = self._numbers.push(Aligned(self._detokenizer.flush(), None))
            parts += self._as_written([*rest, *self._numbers.flush()])
        if segment.marks:
            self._aligned += parts
            text = place_marks(segment.sentence, segment.marks, self._aligned) if is_last else ""
        else:
            text = "".join(part.text for part in parts)
        if self._is_first:
            text = segment.separator + segment.before + text
            self._is_first = False
        return text + segment.after if is_last else text

    def _parts(self, token: TokenReport) -> Iterator[Aligned]:
        """What can be written with this token."""
        text, place = self._detokenizer.push(token.token_id), self._place(token)
        if token.term is not None:
            yield from self._as_written(self._numbers.flush())
            has_space = (self._held_placeholder + text)[:1].isspace()
            term, self._term, self._held_placeholder = self._term, token.term, ""
            # All of it is written with its first token.
            is_begun = token.term == term
            text = "" if is_begun else self._term_behind(has_space, self._segment.terms[token.term])
            yield Aligned(text, place)
        else:
            text = self._without_placeholder(text)
            if self._term is not None and text:
                text = self._apart(self._segment.terms[self._term], text)
                self._term = None if text else self._term
            part = Aligned(text, place)
            yield from self._as_written([part] if self._forced > 0 else self._numbers.push(part))
        self._forced -= 1
        self._said = text or self._said
        self._has_words = self._has_words or has_words(text)

    def _as_written(self, parts: Iterable[Aligned]) -> Iterator[Aligned]:
        return (Aligned(self._segment.render(part.text), part.place) for part in parts)

    def _without_placeholder(self, text: str) -> str:
        """What is said, but for a stand-in that stands for nothing; one may still become a word."""
        held, self._held_placeholder = self._held_placeholder, ""
        if self._drops_placeholders and (held + text).strip() in ("", PLACEHOLDER):
            self._held_placeholder = held + text
            return ""
        return held + text if text[:1].isalnum() or not held.strip() else text

    def _apart(self, term: Term, text: str) -> str:
        """What is said behind a term, without what would make another word of it.

        A model may take a stand-in for the beginning of a word; a term that ends before a space is none.
        """
        follows = self._segment.sentence[term.end : term.end + 1]
        if term.is_copy and text[:1].isspace() and follows and is_word_character(follows):
            return text[1:]
        if not text[:1].isalnum() or is_unspaced(text[:1]):
            return text
        if not term.is_copy:
            return "".join(dropwhile(str.isalnum, text))
        return " " + text if follows.isspace() else text

    def _term_behind(self, has_space: bool, term: Term) -> str:
        """A term as the sentence has it, and a space before it if it `has_space` or would run into a word."""
        segment = self._segment
        words = term.translation if term.is_copy else segment.render(self._cased(term))
        last = self._said[-1:]
        before = segment.sentence[term.start - 1 : term.start] if term.start else ""
        if is_unspaced(before):
            before = ""  # it says nothing of where spaces are
        is_attached = before != "" and not before.isspace() and (before.isalnum() or not last.isalnum())
        if not term.is_copy and (last in _APOSTROPHES or is_unspaced(last) or is_unspaced(words[:1])):
            is_attached = True
        return words if is_attached or not has_space or last.isspace() else " " + words

    def _cased(self, term: Term) -> str:
        """The translation of a term, with the capital that the beginning of a sentence asks for."""
        words = term.translation.upper() if term.capitals else term.translation
        first = next(filter(str.isalpha, self._segment.sentence), "")
        is_plain = words.partition(" ")[0].islower()  # "iPhone" is not
        return words[:1].upper() + words[1:] if first.isupper() and is_plain and not self._has_words else words

    def _place(self, token: TokenReport) -> int | None:
        if token.term is not None:
            return self._segment.terms[token.term].start
        span = self._spans[token.inspection.alignment[0]] if token.inspection.alignment else None
        return span and span[0]
