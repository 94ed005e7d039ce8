"""A translation in progress: its segments in the engines, its events in the order of the text."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import UNSET

from model.tokenizer import Tokenizer
from service.assembly import SegmentAssembly, TextAssembly, Version, copied, segment_finished
from service.engine.generation import Generation
from service.engine.pool import EnginePool
from service.engine.request import Beam, Constraints, GenerationRequest, Sampling, TokenReport
from service.errors import ServiceError
from service.events import Event, Finished, Started, Timings, Usage
from service.segmentation import Segment


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """How to translate; `None` leaves the choice to the server."""

    sampling: Sampling = field(default_factory=Sampling)
    beam: Beam = field(default_factory=Beam)
    constraints: Constraints = field(default_factory=Constraints)
    target_prefix: str = ""
    top_candidates: int = 0
    alignment: bool = False
    attention: bool = False
    """Only with `alignment`."""
    max_new_tokens: int | None = None
    timeout_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request may ask for."""

    max_characters: int
    max_texts: int
    max_segments_in_flight: int
    max_length: int
    """Of a source, in tokens."""
    max_new_tokens: int
    max_beam_size: int
    timeout_seconds: float


class Work(NamedTuple):
    """A segment, the text it belongs to, and its ids ([] where it is copied, not translated).

    `spans` are what its ids stand for in that text (`Tokenizer.spans`), if that is wanted.
    """

    text_index: int
    segment: Segment
    source_ids: list[int]
    spans: Sequence[tuple[int, int] | None] = ()


class Job(NamedTuple):
    """A checked request; `forced_ids` begin the translation of its only segment, if there are any.

    `prompt_ids` tell the decoder the language.
    """

    work: list[Work]
    forced_ids: list[int]
    texts: int
    source: str
    target: str
    options: TranslationOptions
    prompt_ids: list[int]


MAX_BEAM_SIZE: Final = 16
"""Wider beams do not translate better, often worse (Koehn and Knowles 2017, section 3.6), and hold as many slots."""

# Room for a target that is much longer than its source, while a model that repeats itself is stopped.
_TARGET_TOKENS_PER_SOURCE_TOKEN: Final = 3
_EXTRA_TARGET_TOKENS: Final = 32


def default_target_length(source_tokens: int, forced_tokens: int, limits: Limits) -> int:
    """How long a translation may become for which no `max_new_tokens` was given."""
    generous = _TARGET_TOKENS_PER_SOURCE_TOKEN * source_tokens + _EXTRA_TARGET_TOKENS
    return min(forced_tokens + generous, limits.max_new_tokens)


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
        # A beam counts for what it holds: long texts leave as much to others as without one.
        for _ in range(max(limits.max_segments_in_flight // job.options.beam.size, 1)):
            self._submit_next()

    def _submit_next(self) -> None:
        index = next(self._to_submit, None)
        if index is None:
            return
        ids, options = self._job.work[index].source_ids, self._job.options
        request = GenerationRequest(
            ids,
            options.max_new_tokens or default_target_length(len(ids), len(self._job.forced_ids), self._limits),
            options.sampling,
            options.beam,
            options.constraints,
            self._job.forced_ids,
            prompt_ids=self._job.prompt_ids,
            top_candidates=options.top_candidates,
            alignment=options.alignment,
            attention=options.attention,
        )
        self._generations[index] = self._pool.submit(request)

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
        source_tokens = [each.spans for each in job.work] if job.options.attention else UNSET
        yield [Started(self.id, len(job.work), job.source, job.target, source_tokens)]
        wanted = job.options.beam.alternatives
        texts = [TextAssembly(wanted) for _ in range(job.texts)]
        first_token_at: float | None = None
        generated = 0
        for index, work in enumerate(job.work):
            if not work.source_ids:
                yield copied(index, work.text_index, work.segment)
                texts[work.text_index].add([Version("".join(work.segment), 0.0, 0)])
                # A book of numbers would otherwise keep the event loop to itself.
                await asyncio.sleep(0)
                continue
            assembly = SegmentAssembly(index, work.segment, self._tokenizer, work.spans)
            async for tokens in self._tokens_of(index):
                first_token_at = first_token_at or time.monotonic()
                yield [assembly.push(token) for token in tokens]
            generated += assembly.tokens
            versions = assembly.versions()
            texts[work.text_index].add(versions)
            reason = assembly.finish_reason
            yield [segment_finished(index, work.text_index, versions, reason, with_alternatives=wanted > 0)]
        now = time.monotonic()
        usage = Usage(sum(len(each.source_ids) for each in job.work), generated)
        timings = Timings((first_token_at or now) - self._started_at, now - self._started_at)
        yield [Finished([text.finished() for text in texts], usage, timings)]

    async def _tokens_of(self, index: int) -> AsyncGenerator[list[TokenReport]]:
        if self._failure is not None:
            raise self._failure
        generation = self._generations[index]
        while tokens := await generation.next_tokens(self._deadline):
            yield tokens
        self._generations.pop(index).close()
        self._submit_next()
