"""Results: the events of a segment as its tokens arrive, and the translation of a text from its segments."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby, repeat
from typing import Final, Literal, NamedTuple

from msgspec import UNSET

from service.engine.messages import (
    BeamReport,
    FinishReason,
    LiveHypothesis,
    SegmentReport,
    TokenReport,
    TokenRun,
    joined,
)
from service.text.segment import Match, Segment
from service.translation.events import (
    Alignment,
    Alternative,
    BeamStepped,
    Candidate,
    Event,
    Hypothesis,
    SegmentFinished,
    TextTranslated,
    TokenGenerated,
)
from service.translation.postprocess import StreamingPostprocessor
from service.translation.preprocess import EncodedSegment

_ATTENTION_DIGITS: Final = 4
"""Enough for a picture; a sentence has as many weights as the product of source and target length."""


class Version(NamedTuple):
    """One translation of a segment: its text with the white space around it, and its log-probability."""

    text: str
    logprob: float
    tokens: int

    @property
    def score(self) -> float | None:
        """The mean log-probability of its tokens; None if none was generated."""
        return self.logprob / self.tokens if self.tokens else None


class _Live(NamedTuple):
    """A live hypothesis of a beam."""

    postprocessor: StreamingPostprocessor
    text: str = ""
    tokens: int = 0

    def extended(self, report: LiveHypothesis) -> "_Live":
        postprocessor, text = self.postprocessor.copy(), self.text
        for token_id in report.ids:
            text += postprocessor.push(TokenReport(0, token_id, 0.0, term=report.term), is_last=False)
        return _Live(postprocessor, text, self.tokens + len(report.ids))


class SegmentAssembly:
    """Builds the text and the events of one segment from its tokens."""

    def __init__(self, index: int, encoded: EncodedSegment, *, shows_alignment: bool = False) -> None:
        """`index` is the number of the segment in its request."""
        assert encoded.model is not None
        self._index = index
        self._encoded = encoded
        self._tokenizer = encoded.model.tokenizer
        self._shows_alignment = shows_alignment
        self._postprocessor = StreamingPostprocessor(encoded)
        self._live: list[_Live] = []
        self._steps = 0
        self._best = Version("", 0.0, 0)
        self._last: TokenReport | TokenRun | None = None

    def events(self, reports: Iterable[SegmentReport]) -> list[Event]:
        """Convert reports to their events; reports come in order."""
        events: list[Event] = []
        for report in _with_joined_runs(reports):
            if isinstance(report, TokenRun):
                events += self._push_run(report)
            else:
                events.append(self.push(report) if isinstance(report, TokenReport) else self._step(report))
        return events

    def _push_run(self, run: TokenRun) -> list[TokenGenerated]:
        texts = self._postprocessor.push_run(run)
        events = [*map(TokenGenerated, repeat(self._index), count(self.tokens), texts, run.logprobs)]
        total = self._best.logprob
        for logprob in run.logprobs:  # one after the other: `sum` rounds otherwise in later versions of Python
            total += logprob
        self._best = Version("".join((self._best.text, *texts)), total, self.tokens + len(texts))
        self._last = run
        return events

    def _step(self, report: BeamReport) -> BeamStepped:
        # Marks get their places with the last token only: live hypotheses have none.
        unmarked = self._encoded._replace(segment=self._encoded.segment._replace(marks=()))
        before = self._live or [_Live(StreamingPostprocessor(unmarked))]
        self._live = [before[each.parent].extended(each) for each in report.hypotheses]
        self._steps += 1
        pairs = zip(self._live, report.hypotheses, strict=True)
        hypotheses = [Hypothesis(live.text, each.logprob / live.tokens) for live, each in pairs]
        return BeamStepped(self._index, self._steps, hypotheses)

    @property
    def tokens(self) -> int:
        return self._best.tokens

    def push(self, token: TokenReport) -> TokenGenerated:
        text = self._postprocessor.push(token, is_last=token.finish_reason is not None)
        candidates = [Candidate(self._piece(each), logprob) for each, logprob in token.inspection.candidates]
        alignment = token.inspection.alignment
        aligned = self._aligned(*alignment) if alignment is not None and self._shows_alignment else UNSET
        attention = _rounded(token.inspection.attention)
        own = token.inspection.self_attention
        source_tokens = [*map(self._in_text, self._encoded.spans)] if attention and self.tokens == 0 else UNSET
        generated = TokenGenerated(
            self._index,
            self.tokens,
            text,
            token.logprob,
            candidates or UNSET,
            aligned,
            attention or UNSET,
            source_tokens,
            UNSET if own is None else [*map(_rounded, own)],
        )
        self._best = Version(self._best.text + text, self._best.logprob + token.logprob, self.tokens + 1)
        self._last = token
        return generated

    def versions(self) -> list[Version]:
        """Return the translation and its alternatives, the best first; an empty text is no alternative."""
        assert self._last is not None
        others = self._last.alternatives if isinstance(self._last, TokenReport) else ()
        return [
            self._best,
            *(
                Version(self._text_of(each.tokens), each.logprob, len(each.tokens))
                for each in others
                if self._tokenizer.decode([token.token_id for token in each.tokens]).strip()
            ),
        ]

    def _text_of(self, tokens: Sequence[TokenReport]) -> str:
        postprocessor = StreamingPostprocessor(self._encoded)
        return "".join(postprocessor.push(token, is_last=token is tokens[-1]) for token in tokens)

    @property
    def is_finished(self) -> bool:
        """True after the last token."""
        return self._last is not None and self._last.finish_reason is not None

    @property
    def finish_reason(self) -> FinishReason:
        assert self._last is not None
        assert self._last.finish_reason is not None
        return self._last.finish_reason

    def _aligned(self, position: int, weight: float) -> Alignment | None:
        span = self._in_text(self._encoded.spans[position])
        return None if span is None else Alignment(*span, weight)

    def _in_text(self, span: tuple[int, int] | None) -> tuple[int, int] | None:
        if span is None:
            return None
        start, end = self._encoded.segment.source_span(*span)
        return self._encoded.offset + start, self._encoded.offset + end

    def _piece(self, token_id: int) -> str:
        return self._encoded.segment.render(self._tokenizer.label(token_id))


def _with_joined_runs(reports: Iterable[SegmentReport]) -> Iterator[SegmentReport]:
    for kind, group in groupby(reports, type):
        if kind is TokenRun:
            yield joined([run for run in group if isinstance(run, TokenRun)])
        else:
            yield from group


def _rounded(weights: Sequence[float]) -> list[float]:
    return [round(weight, _ATTENTION_DIGITS) for weight in weights]


def segment_finished(
    index: int,
    encoded: EncodedSegment,
    source: tuple[int, int],
    versions: Sequence[Version],
    reason: FinishReason | Literal["copied", "memory"],
    *,
    with_alternatives: bool,
) -> SegmentFinished:
    """Return the event that ends a segment; `source` is the span of its sentence in its text."""
    best, *others = versions
    alternatives = _alternatives(best.text, others) if with_alternatives else UNSET
    matches = UNSET if encoded.segment.matches is None else encoded.segment.matches
    end = best.text, best.score, reason, source, alternatives, matches
    return SegmentFinished(index, encoded.text_index, *end)


@dataclass
class TextAssembly:
    """Joins one text from the versions of its segments, with `count` alternatives.

    The i-th alternative of a text consists of the i-th of each segment, or the best if a segment has fewer.
    """

    count: int
    _segments: list[Sequence[Version]] = field(init=False, default_factory=list)
    _matches: list[Match] = field(init=False, default_factory=list)

    def add(self, segment: Segment, versions: Sequence[Version]) -> None:
        """Add the versions of the next segment."""
        self._segments.append(versions)
        self._matches += segment.matches or ()

    def finished(self) -> TextTranslated:
        best, *others = (self._version(rank) for rank in range(1 + self.count))
        return TextTranslated(best.text, best.score, _alternatives(best.text, others), self._matches)

    def _version(self, rank: int) -> Version:
        chosen = [versions[rank] if rank < len(versions) else versions[0] for versions in self._segments]
        return Version(
            "".join(each.text for each in chosen),
            sum(each.logprob for each in chosen),
            sum(each.tokens for each in chosen),
        )


def _alternatives(best: str, others: Sequence[Version]) -> list[Alternative]:
    """Return each different text once, as LibreTranslate does: different tokens can spell the same text."""
    different = {version.text: version for version in reversed(others) if version.text != best}
    return [Alternative(version.text, version.score) for version in others if different.get(version.text) is version]
