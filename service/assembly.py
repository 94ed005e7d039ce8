"""From token ids to text: the tokens of a segment, then the segments of a text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import UNSET

from model.tokenizer import Detokenizer, Tokenizer
from service.engine.request import FinishReason, TokenReport
from service.events import Alignment, Alternative, Candidate, SegmentFinished, TextTranslated, TokenGenerated
from service.text.segment import Segment, Term

_ATTENTION_DIGITS: Final = 4
"""More than a picture shows; a sentence has as many weights as the product of its lengths."""


class Version(NamedTuple):
    """One way to translate a segment: its text, with the white space around it, and its tokens' log-probabilities."""

    text: str
    logprob: float
    tokens: int

    @property
    def score(self) -> float | None:
        """The mean log-probability of its tokens; None where nothing was generated."""
        return self.logprob / self.tokens if self.tokens else None


class Wording:
    """Turns the tokens of one version of a segment into text, one at a time; what it has returned never changes."""

    def __init__(self, segment: Segment, tokenizer: Tokenizer) -> None:
        self._segment = segment
        self._detokenizer = Detokenizer(tokenizer)
        self._term: int | None = None
        self._written = segment.before
        self._is_first = True

    def push(self, token: TokenReport, *, is_last: bool) -> str:
        segment = self._segment
        text = self._detokenizer.push(token.token_id)
        if token.term is None:
            text = self._apart(segment.written(text))
        elif token.term == self._term:
            text = ""  # all of it was written with its first token
        else:
            text = self._term_behind(text[:1].isspace(), segment.terms[token.term])
        self._term = token.term if text or token.term is not None else self._term
        if self._is_first:
            text = segment.before + text
            self._is_first = False
        if is_last:
            text += segment.written(self._detokenizer.flush()) + segment.after
        self._written = text or self._written
        return text

    def _apart(self, text: str) -> str:
        """A model may take a stand-in for the beginning of a word; a term that ends before a space is none."""
        if self._term is None or not text[:1].isalnum():
            return text
        end = self._segment.terms[self._term].end
        return " " + text if self._segment.sentence[end : end + 1].isspace() else text

    def _term_behind(self, has_space: bool, term: Term) -> str:
        """A term as the sentence has it, and a space before it if it `has_space` or would run into a word."""
        segment = self._segment
        words = term.translation if term.is_copy else segment.written(term.translation)
        last = self._written[-1:]
        before = segment.sentence[term.start - 1 : term.start]
        is_attached = before != "" and not before.isspace() and (before.isalnum() or not last.isalnum())
        return words if is_attached or not has_space or last.isspace() else " " + words


class SegmentAssembly:
    """Grows the text of one segment from its tokens."""

    def __init__(
        self, index: int, segment: Segment, tokenizer: Tokenizer, spans: Sequence[tuple[int, int] | None] = ()
    ) -> None:
        """`spans` are the characters of its text that the ids of the source stand for; empty where nobody asks."""
        self._index = index
        self._segment = segment
        self._tokenizer = tokenizer
        self._spans = spans
        self._wording = Wording(segment, tokenizer)
        self._best = Version("", 0.0, 0)
        self._last: TokenReport | None = None

    @property
    def tokens(self) -> int:
        return self._best.tokens

    def push(self, token: TokenReport) -> TokenGenerated:
        text = self._wording.push(token, is_last=token.finish_reason is not None)
        candidates = [Candidate(self._piece(each), logprob) for each, logprob in token.candidates]
        aligned = UNSET if token.alignment is None else self._aligned(*token.alignment)
        attention = [round(weight, _ATTENTION_DIGITS) for weight in token.attention]
        source_tokens = self._spans if attention and self.tokens == 0 else UNSET
        generated = TokenGenerated(
            self._index,
            self.tokens,
            text,
            token.logprob,
            candidates or UNSET,
            aligned,
            attention or UNSET,
            source_tokens,
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
        wording = Wording(self._segment, self._tokenizer)
        return "".join(wording.push(token, is_last=token is tokens[-1]) for token in tokens)

    @property
    def finish_reason(self) -> FinishReason:
        assert self._last is not None
        assert self._last.finish_reason is not None
        return self._last.finish_reason

    def _aligned(self, position: int, weight: float) -> Alignment | None:
        span = self._spans[position]
        return None if span is None else Alignment(*span, weight)

    def _piece(self, token_id: int) -> str:
        return self._segment.written(self._tokenizer.piece_bytes(token_id).decode(errors="replace"))


def segment_finished(
    index: int, text_index: int, versions: Sequence[Version], reason: FinishReason, *, with_alternatives: bool
) -> SegmentFinished:
    """The event that ends a translated segment."""
    best, *others = versions
    alternatives = _alternatives(best.text, others) if with_alternatives else UNSET
    return SegmentFinished(index, text_index, best.text, best.score, reason, alternatives)


def copied(index: int, text_index: int, segment: Segment) -> tuple[TokenGenerated, SegmentFinished]:
    """The events of a segment that is not translated."""
    text = segment.text
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
