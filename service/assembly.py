"""From token ids to text: the tokens of a segment, then the segments of a text."""

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Final, NamedTuple

from msgspec import UNSET

from model.tokenizer import Detokenizer, Tokenizer
from service.engine.request import BeamReport, FinishReason, LiveHypothesis, SegmentReport, TokenReport
from service.events import (
    Alignment,
    Alternative,
    BeamStepped,
    Candidate,
    Hypothesis,
    SegmentFinished,
    TextTranslated,
    TokenGenerated,
)
from service.text.numbers import Mending
from service.text.placement import Aligned, place_marks
from service.text.segment import STAND_IN, Segment, Term, has_words, joins
from service.text.sentences import is_unspaced

_ATTENTION_DIGITS: Final = 4
"""More than a picture shows; a sentence has as many weights as the product of its lengths."""
# That of an x-ray, too: rayons X.
_LIKE_STAND_IN: Final = re.compile(rf"(?<![a-z]){STAND_IN}(?![a-z])", re.IGNORECASE)
_APOSTROPHES: Final = ("'", "’")


class Version(NamedTuple):
    """One way to translate a segment: its text, with the white space around it, and its tokens' log-probabilities."""

    text: str
    logprob: float
    tokens: int

    @property
    def score(self) -> float | None:
        """The mean log-probability of its tokens; None where nothing was generated."""
        return self.logprob / self.tokens if self.tokens else None


Spans = Sequence[tuple[int, int] | None]


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
        reading = segment.reading().text
        self._numbers = Mending(reading)
        # One more than there are, a model has made up.
        stand_ins = sum(term.has_stand_in for term in segment.terms)
        self._drops_stand_ins = 0 < stand_ins == len(_LIKE_STAND_IN.findall(reading))
        self._stand_in = ""
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
            text = segment.lead + segment.before + text
            self._is_first = False
        return text + segment.after if is_last else text

    def _parts(self, token: TokenReport) -> Iterator[Aligned]:
        """What can be written with this token."""
        text, place = self._detokenizer.push(token.token_id), self._place(token)
        if token.term is not None:
            yield from self._as_written(self._numbers.flush())
            has_space = (self._stand_in + text)[:1].isspace()
            term, self._term, self._stand_in = self._term, token.term, ""
            # All of it is written with its first token.
            is_begun = token.term == term
            text = "" if is_begun else self._term_behind(has_space, self._segment.terms[token.term])
            yield Aligned(text, place)
        else:
            text = self._without_stand_in(text)
            if self._term is not None and text:
                text = self._apart(self._segment.terms[self._term], text)
                self._term = None if text else self._term
            part = Aligned(text, place)
            yield from self._as_written([part] if self._forced > 0 else self._numbers.push(part))
        self._forced -= 1
        self._said = text or self._said
        self._has_words = self._has_words or has_words(text)

    def _as_written(self, parts: Iterable[Aligned]) -> Iterator[Aligned]:
        return (part._replace(text=self._segment.written(part.text)) for part in parts)

    def _without_stand_in(self, text: str) -> str:
        """What is said, but for a stand-in that stands for nothing; one may still become a word."""
        held, self._stand_in = self._stand_in, ""
        if self._drops_stand_ins and (held + text).strip() in ("", STAND_IN):
            self._stand_in = held + text
            return ""
        return held + text if text[:1].isalnum() or not held.strip() else text

    def _apart(self, term: Term, text: str) -> str:
        """What is said behind a term, without what would make another word of it.

        A model may take a stand-in for the beginning of a word; a term that ends before a space is none.
        """
        follows = self._segment.sentence[term.end : term.end + 1]
        if term.is_copy and text[:1].isspace() and follows and joins(follows):
            return text[1:]
        if not text[:1].isalnum() or is_unspaced(text[:1]):
            return text
        if not term.is_copy:
            return "".join(dropwhile(str.isalnum, text))
        return " " + text if follows.isspace() else text

    def _term_behind(self, has_space: bool, term: Term) -> str:
        """A term as the sentence has it, and a space before it if it `has_space` or would run into a word."""
        segment = self._segment
        words = term.translation if term.is_copy else segment.written(self._cased(term))
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
        span = self._spans[token.alignment[0]] if token.alignment else None
        return span and span[0]


class _Live(NamedTuple):
    """A hypothesis of a beam."""

    wording: Wording
    text: str = ""
    tokens: int = 0

    def extended(self, report: LiveHypothesis) -> "_Live":
        wording, text = self.wording.copy(), self.text
        for token_id in report.ids:
            text += wording.push(TokenReport(0, token_id, 0.0, term=report.term), is_last=False)
        return _Live(wording, text, self.tokens + len(report.ids))


class SegmentAssembly:
    """Grows the text of one segment from its tokens."""

    def __init__(
        self,
        index: int,
        segment: Segment,
        tokenizer: Tokenizer,
        spans: Spans = (),
        told_from: int | None = None,
        forced: int = 0,
    ) -> None:
        """`spans` are the characters of its sentence that the ids of the source stand for.

        `told_from` is where that begins in its text; None where nobody asks for alignment. The first `forced` tokens
        are the request's own words.
        """
        self._index = index
        self._segment = segment
        self._tokenizer = tokenizer
        self._spans = spans
        self._told_from = told_from
        self._forced = forced
        self._wording = Wording(segment, tokenizer, spans, forced)
        self._live = [_Live(self._wording.copy())]
        self._steps = 0
        self._best = Version("", 0.0, 0)
        self._last: TokenReport | None = None

    def event(self, report: SegmentReport) -> TokenGenerated | BeamStepped:
        """What is told of a report; in their order."""
        return self.push(report) if isinstance(report, TokenReport) else self._step(report)

    def _step(self, report: BeamReport) -> BeamStepped:
        self._live = [self._live[each.parent].extended(each) for each in report.hypotheses]
        self._steps += 1
        told = zip(self._live, report.hypotheses, strict=True)
        hypotheses = [Hypothesis(live.text, each.logprob / live.tokens) for live, each in told]
        return BeamStepped(self._index, self._steps, hypotheses)

    @property
    def tokens(self) -> int:
        return self._best.tokens

    def push(self, token: TokenReport) -> TokenGenerated:
        text = self._wording.push(token, is_last=token.finish_reason is not None)
        candidates = [Candidate(self._piece(each), logprob) for each, logprob in token.candidates]
        aligned = UNSET if token.alignment is None or self._told_from is None else self._aligned(*token.alignment)
        attention = _rounded(token.attention)
        source_tokens = [*map(self._in_text, self._spans)] if attention and self.tokens == 0 else UNSET
        generated = TokenGenerated(
            self._index,
            self.tokens,
            text,
            token.logprob,
            candidates or UNSET,
            aligned,
            attention or UNSET,
            source_tokens,
            [*map(_rounded, token.self_attention)] or UNSET,
        )
        self._best = Version(self._best.text + text, self._best.logprob + token.logprob, self.tokens + 1)
        self._last = token
        return generated

    def versions(self) -> list[Version]:
        """The translation and its alternatives, the best first."""
        assert self._last is not None
        others = self._last.alternatives
        return [
            self._best,
            *(Version(self._text_of(each.tokens), each.logprob, len(each.tokens)) for each in others),
        ]

    def _text_of(self, tokens: Sequence[TokenReport]) -> str:
        wording = Wording(self._segment, self._tokenizer, self._spans, self._forced)
        return "".join(wording.push(token, is_last=token is tokens[-1]) for token in tokens)

    @property
    def finish_reason(self) -> FinishReason:
        assert self._last is not None
        assert self._last.finish_reason is not None
        return self._last.finish_reason

    def _aligned(self, position: int, weight: float) -> Alignment | None:
        span = self._in_text(self._spans[position])
        return None if span is None else Alignment(*span, weight)

    def _in_text(self, span: tuple[int, int] | None) -> tuple[int, int] | None:
        assert self._told_from is not None
        return span and (self._told_from + span[0], self._told_from + span[1])

    def _piece(self, token_id: int) -> str:
        return self._segment.written(self._tokenizer.piece_bytes(token_id).decode(errors="replace"))


def _rounded(weights: Sequence[float]) -> list[float]:
    return [round(weight, _ATTENTION_DIGITS) for weight in weights]


def segment_finished(
    index: int, text_index: int, versions: Sequence[Version], reason: FinishReason, *, with_alternatives: bool
) -> SegmentFinished:
    """The event that ends a translated segment."""
    best, *others = versions
    alternatives = _alternatives(best.text, others) if with_alternatives else UNSET
    return SegmentFinished(index, text_index, best.text, best.score, reason, alternatives)


def copied(index: int, text_index: int, segment: Segment) -> tuple[TokenGenerated, SegmentFinished]:
    """The events of a segment that is not translated."""
    text = segment.copy
    return TokenGenerated(index, 0, text, None), SegmentFinished(index, text_index, text, None, "copied")


@dataclass
class TextAssembly:
    """Puts one text together from the versions of its segments, `count` alternatives included.

    The i-th alternative of a text is made of the i-th of each segment; one that has no more stays as it is.
    """

    count: int
    _segments: list[Sequence[Version]] = field(init=False, default_factory=list)

    def add(self, versions: Sequence[Version]) -> None:
        """The next segment."""
        self._segments.append(versions)

    def finished(self) -> TextTranslated:
        best, *others = (self._version(rank) for rank in range(1 + self.count))
        return TextTranslated(best.text, best.score, _alternatives(best.text, others))

    def _version(self, rank: int) -> Version:
        chosen = [versions[rank] if rank < len(versions) else versions[0] for versions in self._segments]
        return Version(
            "".join(each.text for each in chosen),
            sum(each.logprob for each in chosen),
            sum(each.tokens for each in chosen),
        )


def _alternatives(best: str, others: Sequence[Version]) -> list[Alternative]:
    """Each text once, as LibreTranslate does: different tokens can spell the same."""
    different = {version.text: version for version in reversed(others) if version.text != best}
    return [Alternative(version.text, version.score) for version in others if different.get(version.text) is version]
