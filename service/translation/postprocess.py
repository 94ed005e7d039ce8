"""Postprocessing: from the token ids of one version of a segment to its text."""

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from typing import Final

from model.tokenizer import Detokenizer
from service.engine.messages import TokenReport, TokenRun
from service.text.markup.tag_placement import place_marks
from service.text.number_repair import NumberRepair
from service.text.punctuation_repair import FinalExclamation, OpeningMarks
from service.text.segment import STAND_IN, Aligned, Term, has_words, is_word_character
from service.text.sentences import is_unspaced
from service.translation.preprocess import EncodedSegment, PivotSentence

# Also matches the X of an x-ray: rayons X.
_LIKE_STAND_IN: Final = re.compile(rf"(?<![a-z]){STAND_IN}(?![a-z])", re.IGNORECASE)
_FINAL_SIGNS: Final = re.compile(r"[^\w\s.,;:!?…)]+$")
_APOSTROPHES: Final = ("'", "’")


class StreamingPostprocessor:
    """Turns the tokens of one version of a segment into text, one at a time; returned text never changes.

    If tags have to be placed, the whole text is returned with the last token. Numbers of the target prefix are not
    repaired.
    """

    def __init__(self, encoded: EncodedSegment) -> None:
        assert encoded.model is not None
        self._segment = segment = encoded.segment
        self._forced = len(encoded.forced_ids)
        self._spans = encoded.spans
        self._detokenizer = Detokenizer(encoded.model.tokenizer)
        words = segment.model_input().text
        self._numbers = NumberRepair(words, segment.languages, segment.sentence)
        is_french = segment.languages[1].partition("-")[0] == "fr"
        self._marks = OpeningMarks(segment.sentence, is_french=is_french)
        self._ending = FinalExclamation(segment.sentence, is_french=is_french)
        # If the sentence has no other X, every X beyond the terms was made up by the model.
        placeholders = sum(term.has_placeholder for term in segment.terms)
        self._drops_placeholders = 0 < placeholders == len(_LIKE_STAND_IN.findall(words))
        self._held_placeholder = ""
        self._term: int | None = None
        self._written: frozenset[int] = frozenset()
        """The numbers of the terms that have been written."""
        self._last_text = segment.before
        self._is_first = True
        self._has_words = False
        self._aligned: list[Aligned] = []
        self._is_word_by_word = not (
            segment.marks or segment.terms or self._numbers.is_needed or self._marks.is_needed or self._ending.is_needed
        )
        """True if the text of a token is final as soon as it is whole."""

    def copy(self) -> "StreamingPostprocessor":
        """Return an independent copy, which continues from here."""
        other = copy.copy(self)
        other._detokenizer, other._aligned = self._detokenizer.copy(), [*self._aligned]
        other._numbers, other._marks = copy.copy(self._numbers), copy.copy(self._marks)
        other._ending = copy.copy(self._ending)
        return other

    def push(self, token: TokenReport, *, is_last: bool) -> str:
        """Add a token and return the text that is final."""
        segment = self._segment
        parts = [*self._parts(token)]
        if is_last:
            rest = self._numbers.push(Aligned(self._detokenizer.flush(), None))
            parts += self._rendered([*rest, *self._numbers.flush()])
        if self._ending.is_needed and self._forced < 0:
            parts = self._ending.push(parts, is_last=is_last)
        if is_last:
            parts += (Aligned(" " + term.translation, term.start) for term in self.lost)
        if segment.marks:
            self._aligned += parts
            text = place_marks(segment.sentence, segment.marks, self._aligned) if is_last else ""
        else:
            text = "".join(part.text for part in parts)
        if self._is_first:
            text = segment.separator + segment.before + text
            self._is_first = False
        return text + segment.after if is_last else text

    @property
    def holds_text(self) -> bool:
        """True if text is held back that the next token may complete or change."""
        is_held = (
            self._held_placeholder
            or self._ending.holds_text
            or self._numbers.holds_text
            or self._detokenizer.holds_text
        )
        return bool(is_held or self._segment.marks)

    def push_run(self, run: TokenRun) -> list[str]:
        """Add some tokens and return the text that is final after each, as `push` does."""
        is_last = run.finish_reason is not None
        if not self._is_word_by_word:
            return [self.push(report, is_last=report.finish_reason is not None) for report in run.reports(request_id=0)]
        segment = self._segment
        texts = self._detokenizer.push_all(run.token_ids)
        if is_last:
            texts[-1] += self._detokenizer.flush()
        if not segment.renders_as_is:
            texts = [segment.render(text) for text in texts]
        if self._is_first:
            texts[0] = segment.separator + segment.before + texts[0]
            self._is_first = False
        if is_last:
            texts[-1] += segment.after
        return texts

    def _parts(self, token: TokenReport) -> Iterator[Aligned]:
        """Yield the parts of the text that this token completes."""
        text, place = self._detokenizer.push(token.token_id), self._place(token)
        spaced = self._marks.push(text)
        text = text if self._forced > 0 else spaced
        if token.term is not None:
            yield from self._rendered(self._numbers.flush())
            has_space = (self._held_placeholder + text)[:1].isspace()
            term, self._term, self._held_placeholder = self._term, token.term, ""
            self._written |= {token.term}
            # A term is written with its first token.
            text = "" if token.term == term else self._term_text(has_space, self._segment.terms[token.term])
            yield Aligned(text, place)
        else:
            text = self._without_placeholder(text)
            if self._term is not None and text:
                text = self._detach(self._segment.terms[self._term], text)
                self._term = None if text else self._term
            part = Aligned(text, place)
            yield from self._rendered([part] if self._forced > 0 else self._numbers.push(part))
        self._forced -= 1
        self._last_text = text or self._last_text
        self._has_words = self._has_words or has_words(text)

    @property
    def lost(self) -> list[Term]:
        """The copied terms that have not been written: of a degenerate translation, which gets them at its end."""
        terms = enumerate(self._segment.terms)
        return [term for number, term in terms if term.is_copy and number not in self._written]

    def _rendered(self, parts: Iterable[Aligned]) -> Iterator[Aligned]:
        return (Aligned(self._segment.render(part.text), part.place) for part in parts)

    def _without_placeholder(self, text: str) -> str:
        """Drop a placeholder that stands for no term; hold it back, as it may still become a word."""
        held, self._held_placeholder = self._held_placeholder, ""
        if self._drops_placeholders and (held + text).strip() in ("", STAND_IN):
            self._held_placeholder = held + text
            return ""
        return held + text if text[:1].isalnum() or not held.strip() else text

    def _detach(self, term: Term, text: str) -> str:
        """Return the text after a term, without letters that would extend the term to another word.

        A model may continue a placeholder as a word; a term followed by a space is not the beginning of one.
        """
        follows = self._segment.sentence[term.end : term.end + 1]
        if term.is_copy and text[:1].isspace() and follows and is_word_character(follows):
            return text[1:]
        if not term.is_copy and not is_unspaced(text[:1]):
            signs = _FINAL_SIGNS.search(self._segment.sentence, term.start, term.end)  # of C++ the model writes + again
            return "".join(dropwhile(lambda each: each.isalnum() or (signs is not None and each in signs[0]), text))
        return " " + text if text[:1].isalnum() and not is_unspaced(text[:1]) and follows.isspace() else text

    def _term_text(self, has_space: bool, term: Term) -> str:
        """Return a term's translation, with a space before it if the model wrote one and it does not belong there."""
        segment = self._segment
        words = term.translation if term.is_copy else segment.render(self._cased(term))
        before, last = segment.sentence[: term.start][-1:], self._last_text[-1:]
        is_evidence = before.strip() != "" and not is_unspaced(before)
        # Whether a space follows «, the model knows.
        is_attached = is_evidence and last != "«" and (before.isalnum() or not last.isalnum())
        if not term.is_copy and (last in _APOSTROPHES or is_unspaced(last) or is_unspaced(words[:1])):
            is_attached = True
        return words if is_attached or not has_space or last.isspace() else " " + words

    def _cased(self, term: Term) -> str:
        """Return the translation of a term, with a capital at the beginning of a sentence."""
        words = term.translation.upper() if term.capitals else term.translation
        first = next(filter(str.isalpha, self._segment.sentence), "")
        is_plain = words.partition(" ")[0].islower()  # unlike "iPhone"
        return words[:1].upper() + words[1:] if first.isupper() and is_plain and not self._has_words else words

    def _place(self, token: TokenReport) -> int | None:
        if token.term is not None:
            return self._segment.terms[token.term].start
        span = self._spans[token.inspection.alignment[0]] if token.inspection.alignment else None
        return span and span[0]


def pivot_sentence(encoded: EncodedSegment, tokens: Sequence[TokenReport]) -> PivotSentence:
    """Return the first model's translation of a segment, for the second model to read."""
    # The text around the sentence and the final encoding are left to the second step.
    encoding = "plain" if encoded.segment.encoding == "attribute" else encoded.segment.encoding
    segment = encoded.segment._replace(before="", after="", separator="", capitals=False, encoding=encoding)
    postprocessor = StreamingPostprocessor(encoded._replace(segment=segment))
    text = ""
    terms: list[Term] = []
    for token in tokens:
        part = postprocessor.push(token, is_last=token is tokens[-1])
        term = None if token.term is None else segment.terms[token.term]
        if term is not None and term.is_copy and (place := part.find(term.translation)) >= 0:
            start = len(text) + place
            terms.append(Term(start, start + len(term.translation), term.translation, is_copy=True))
        text += part
    if segment.marks:
        return PivotSentence(text, ())
    start = len(text) - sum(1 + len(term.translation) for term in postprocessor.lost)
    for term in postprocessor.lost:  # they stand at the end, each behind a space
        start += 1
        terms.append(Term(start, start + len(term.translation), term.translation, is_copy=True))
        start = terms[-1].end
    return PivotSentence(text, terms)
