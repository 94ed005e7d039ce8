"""A translation in progress: its segments in the engines, its events in the order of the text."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from model.tokenizer import Detokenizer, Tokenizer
from service.engine.generation import Generation
from service.engine.pool import EnginePool
from service.engine.request import FinishReason, GenerationRequest, Sampling, TokenReport
from service.errors import ServiceError
from service.segmentation import Segment


@dataclass(frozen=True, slots=True)
class Started:
    """The request was accepted."""

    id: str
    segments: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class TokenGenerated:
    """Text that a token completed. White space around a sentence travels with its first and last token."""

    segment: int
    index: int
    text: str
    logprob: float | None


@dataclass(frozen=True, slots=True)
class SegmentFinished:
    """`text` is what the segment's tokens add up to; `score` their mean log-probability."""

    segment: int
    text_index: int
    text: str
    score: float | None
    finish_reason: FinishReason | Literal["copied"]


@dataclass(frozen=True, slots=True)
class Usage:
    source_tokens: int
    generated_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    time_to_first_token_seconds: float
    total_seconds: float


@dataclass(frozen=True, slots=True)
class Finished:
    """One translation for each text, in order."""

    translations: list[str]
    usage: Usage
    timings: Timings


Event = Started | TokenGenerated | SegmentFinished | Finished


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """How to translate; `None` leaves the choice to the server."""

    sampling: Sampling = field(default_factory=Sampling)
    max_new_tokens: int | None = None
    timeout_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request may ask for."""

    max_characters: int
    max_texts: int
    max_segments_in_flight: int
    max_length: int
    timeout_seconds: float


class Work(NamedTuple):
    """A segment, the text it belongs to, and its ids ([] where it is copied, not translated)."""

    text_index: int
    segment: Segment
    source_ids: list[int]


class Job(NamedTuple):
    """A checked request."""

    work: list[Work]
    texts: int
    source: str
    target: str
    options: TranslationOptions


# Room for a target that is much longer than its source, while a model that repeats itself is stopped.
_TARGET_TOKENS_PER_SOURCE_TOKEN: Final = 3
_EXTRA_TARGET_TOKENS: Final = 32


class Translation:
    """A request in progress: some of its segments in the engines, its events in the order of the text."""

    def __init__(
        self,
        job: Job,
        tokenizer: Tokenizer,
        pool: EnginePool,
        limits: Limits,
        on_close: Callable[["Translation"], None],
    ) -> None:
        self.id = secrets.token_hex(8)
        self._job = job
        self._tokenizer = tokenizer
        self._pool = pool
        self._limits = limits
        self._on_close = on_close
        self._failure: ServiceError | None = None
        self._started_at = time.monotonic()
        self._deadline = asyncio.get_running_loop().time() + (job.options.timeout_seconds or limits.timeout_seconds)
        self._to_submit = iter([index for index, each in enumerate(job.work) if each.source_ids])
        self._generations: dict[int, Generation] = {}
        for _ in range(limits.max_segments_in_flight):
            self._submit_next()

    def _submit_next(self) -> None:
        index = next(self._to_submit, None)
        if index is None:
            return
        ids = self._job.work[index].source_ids
        generous = _TARGET_TOKENS_PER_SOURCE_TOKEN * len(ids) + _EXTRA_TARGET_TOKENS
        limit = self._job.options.max_new_tokens or min(generous, self._limits.max_length)
        self._generations[index] = self._pool.submit(GenerationRequest(ids, limit, self._job.options.sampling))

    def close(self) -> None:
        """Cancel whatever is not finished; may be called twice."""
        self._to_submit = iter(())
        while self._generations:
            self._generations.popitem()[1].close()
        self._on_close(self)

    def fail(self, error: ServiceError) -> None:
        """End the translation: its reader gets `error` next."""
        self._failure = error
        for generation in self._generations.values():
            generation.fail(error)

    async def events(self) -> AsyncGenerator[Sequence[Event]]:
        """Events in the order of the text, as many at a time as are there; ends with `Finished`.

        Raises `DeadlineExceeded`, `EngineFailed`, and what the translation was failed with.
        """
        job = self._job
        yield [Started(self.id, len(job.work), job.source, job.target)]
        texts = [""] * job.texts
        first_token_at: float | None = None
        generated = 0
        for index, work in enumerate(job.work):
            if not work.source_ids:
                copied = _copy(index, work)
                texts[work.text_index] += copied[-1].text
                yield copied
                # A book of numbers would otherwise keep the event loop to itself.
                await asyncio.sleep(0)
                continue
            assembly = _Assembly(index, work, self._tokenizer)
            async for tokens in self._tokens_of(index):
                first_token_at = first_token_at or time.monotonic()
                yield [assembly.push(token) for token in tokens]
            generated += assembly.tokens
            texts[work.text_index] += assembly.text
            yield [assembly.finished()]
        now = time.monotonic()
        usage = Usage(sum(len(each.source_ids) for each in job.work), generated)
        yield [Finished(texts, usage, Timings((first_token_at or now) - self._started_at, now - self._started_at))]

    async def _tokens_of(self, index: int) -> AsyncGenerator[list[TokenReport]]:
        if self._failure is not None:
            raise self._failure
        generation = self._generations[index]
        while tokens := await generation.next_tokens(self._deadline):
            yield tokens
        self._generations.pop(index).close()
        self._submit_next()


class _Assembly:
    """Grows the text of one segment from its tokens."""

    def __init__(self, index: int, work: Work, tokenizer: Tokenizer) -> None:
        self.text = ""
        self.tokens = 0
        self._index = index
        self._work = work
        self._detokenizer = Detokenizer(tokenizer)
        self._logprob_sum = 0.0
        self._finish_reason: FinishReason = "length"

    def push(self, token: TokenReport) -> TokenGenerated:
        text = self._detokenizer.push(token.token_id)
        if self.tokens == 0:
            text = self._work.segment.before + text
        if token.finish_reason is not None:
            text += self._detokenizer.flush() + self._work.segment.after
            self._finish_reason = token.finish_reason
        generated = TokenGenerated(self._index, self.tokens, text, token.logprob)
        self.text += text
        self.tokens += 1
        self._logprob_sum += token.logprob
        return generated

    def finished(self) -> SegmentFinished:
        score = self._logprob_sum / self.tokens
        return SegmentFinished(self._index, self._work.text_index, self.text, score, self._finish_reason)


def _copy(index: int, work: Work) -> tuple[TokenGenerated, SegmentFinished]:
    """The events of a segment that is not translated."""
    text = "".join(work.segment)
    return TokenGenerated(index, 0, text, None), SegmentFinished(index, work.text_index, text, None, "copied")
