"""A translation in progress: its segments in the engines, its events in the order of the text."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from service.engine.messages import GenerationRequest, Prompt, Search, SegmentReport, TokenReport
from service.errors import DeadlineExceeded, ServiceError
from service.registry.served_model import ServedModel
from service.supervisor.generation import Generation
from service.text.language_detection import Detected
from service.translation.events import Event, Finished, Started, Timings, Usage
from service.translation.fairness import FirstTokens
from service.translation.options import Limits, TranslationOptions, default_target_length
from service.translation.pivot import Relay, Submitted, between
from service.translation.preprocess import Work
from service.translation.results import SegmentAssembly, TextAssembly, Version, copied, segment_finished


class Job(NamedTuple):
    """A checked request.

    `work` comes as it is asked for: a book is not taken apart before its first sentence is translated. `source` is the
    language of the first text; `detected` are those of all texts, if they had to be.
    """

    work: Iterator[Work]
    texts: int
    source: str
    target: str
    options: TranslationOptions
    detected: Sequence[Detected] = ()
    pivots: Sequence[str | None] = ()
    """Of each text, the language between; () where there is none."""


_LOOK_AHEAD_SECONDS: Final = 0.05
"""Of processor time, after which what is prepared of a text is enough for now."""


class Progress(NamedTuple):
    """How far a translation has come. Times are of `time.monotonic`."""

    started_at: float
    admitted_at: float | None
    """When the first segment that needs a model had its slot."""
    first_token_at: float | None
    ended_at: float
    segments: int
    source_tokens: int
    generated_tokens: int


class Translation:
    """A request in progress: some of its segments in the engines, its events in the order of the text."""

    def __init__(
        self, job: Job, limits: Limits, first_tokens: FirstTokens, on_close: Callable[["Translation"], None]
    ) -> None:
        self.id = secrets.token_hex(8)
        """Of a stream over HTTP its `X-Request-ID`, which is in the log."""
        self._first_tokens = first_tokens
        self._job = job
        self._on_close = on_close
        self._failure: ServiceError | None = None
        self._started_at = time.monotonic()
        self._deadline = asyncio.get_running_loop().time() + (job.options.timeout_seconds or limits.timeout_seconds)
        # A beam counts for what it holds: long texts leave as much to others as without one.
        self._window = max(limits.max_segments_in_flight // job.options.beam.size, 1)
        self._ahead: deque[Relay] = deque()
        self._segments = 0
        self._source_tokens = 0
        self._generated_tokens = 0
        self._first: Generation | None = None
        self._first_token_at: float | None = None
        self.characters_sent = 0
        """Of the texts, those of the sentences whose translation has begun to come out of `events`."""
        self._is_long = False
        self._look_ahead()
        self._is_long = len(self._ahead) == self._window
        if self._source_tokens:
            first_tokens.expect(self)

    def _look_ahead(self) -> None:
        """Submit what comes next in the text, as far as the window reaches."""
        # All is prepared before any is submitted, so that an engine gets it in one batch; but a text that takes long
        # to take apart, and a glossary made to be slow, shall not keep the event loop to themselves.
        until = time.thread_time() + _LOOK_AHEAD_SECONDS
        prepared: list[Work] = []
        for work in islice(self._job.work, self._window - len(self._ahead)):
            prepared.append(work)
            if time.thread_time() >= until:
                break
        # An engine that is faster than its reader never lets it wait, which is where else time runs out.
        if prepared and asyncio.get_running_loop().time() >= self._deadline:
            raise DeadlineExceeded("the translation was not finished in time")
        for work in prepared:
            first = self._submitted(work)
            is_last = work.then is None or first.generation is None
            self._ahead.append(Relay(first, None if is_last else self._handed_on(first)))

    def _submitted(self, work: Work, *, is_cut: bool = False) -> Submitted:
        self._source_tokens += len(work.source_ids)
        generation = work.model.submit(self._request(work, work.model)) if work.model and work.source_ids else None
        self._first = self._first or generation
        return Submitted(work, generation, is_cut)

    async def _handed_on(self, first: Submitted) -> list[Submitted]:
        """What a first model has made of its work, submitted to the second."""
        assert first.generation is not None
        assert first.work.then is not None
        reports = [report async for some in self._reports_of(first.generation) for report in some]
        tokens = [report for report in reports if isinstance(report, TokenReport)]
        self._generated_tokens += len(tokens)
        is_cut = tokens[-1].finish_reason == "length"
        return [
            self._submitted(each, is_cut=is_cut) for each in first.work.then(first.work, between(first.work, tokens))
        ]

    def _request(self, work: Work, model: ServedModel) -> GenerationRequest:
        ids, options = work.source_ids, self._job.options if work.then is None else self._job.options.of_first()
        length = options.max_new_tokens or default_target_length(len(ids), len(work.forced_ids), model)
        return GenerationRequest(
            Prompt(ids, list(work.prompt_ids)),
            Search(length, options.sampling, options.beam),
            replace(
                options.constraints,
                forced_ids=list(work.forced_ids),
                terms=list(work.terms),
                closing_ids=list(work.closing_ids),
            ),
            # Tags are placed by the alignment.
            inspect=replace(options.inspect, alignment=options.inspect.alignment or bool(work.segment.marks)),
            yields_to_new=self._is_long,
        )

    def close(self) -> None:
        """Cancel whatever is not finished; may be called twice."""
        while self._ahead:
            self._ahead.popleft().close()
        self._first_tokens.has_come(self)
        self._on_close(self)

    def fail(self, error: ServiceError) -> None:
        """End the translation: its reader gets `error` next."""
        self._failure = error
        for each in self._ahead:
            each.fail(error)

    def progress(self) -> Progress:
        """As of now, for whoever traces requests."""
        return Progress(
            self._started_at,
            None if self._first is None else self._first.admitted_at,
            self._first_token_at,
            time.monotonic(),
            self._segments,
            self._source_tokens,
            self._generated_tokens,
        )

    async def finished(self) -> Finished:
        """The last of `events`, for whom the others are nothing; raises what they raise."""
        async with aclosing(self.events()) as stream:
            async for events in stream:
                if isinstance(last := events[-1], Finished):
                    return last
        raise AssertionError("a translation ends with Finished")

    async def events(self) -> AsyncGenerator[Sequence[Event]]:
        """Events in the order of the text, as many at a time as are there; ends with `Finished`.

        Raises `DeadlineExceeded`, `EngineFailed`, and what the translation was failed with.
        """
        job = self._job
        yield [Started(self.id, job.source, job.target, job.detected, job.pivots)]
        wanted = job.options.beam.alternatives
        texts = [TextAssembly(wanted) for _ in range(job.texts)]
        while self._ahead:
            if self._failure is not None:
                raise self._failure
            unsent = self._ahead[0].characters
            for submitted in await self._ahead[0].last():
                work, number = submitted.work, self._segments
                self._segments += 1
                if submitted.generation is None or work.model is None:
                    unsent = self._count_as_sent(unsent)
                    yield copied(number, work.text_index, work.segment)
                    texts[work.text_index].add([Version(work.segment.copy, 0.0, 0)])
                    # A book of numbers would otherwise keep the event loop to itself.
                    await self._give_way()
                    continue
                told_from = work.offset if job.options.inspect.alignment else None
                assembly = SegmentAssembly(
                    number, work.segment, work.model.tokenizer, work.spans, told_from, len(work.forced_ids)
                )
                async for reports in self._reports_of(submitted.generation):
                    events = [assembly.event(report) for report in reports]
                    if self._first_token_at is None and assembly.tokens:
                        self._first_token_at = time.monotonic()
                        self._first_tokens.has_come(self)
                    unsent = self._count_as_sent(unsent)
                    yield events
                    await self._give_way()
                self._generated_tokens += assembly.tokens
                versions = assembly.versions()
                texts[work.text_index].add(versions)
                reason = "length" if submitted.is_cut else assembly.finish_reason
                yield [segment_finished(number, work.text_index, versions, reason, with_alternatives=wanted > 0)]
            if self._ahead:  # it was not closed meanwhile
                self._ahead.popleft()
                self._look_ahead()
        now = time.monotonic()
        usage = Usage(self._segments, self._source_tokens, self._generated_tokens)
        timings = Timings((self._first_token_at or now) - self._started_at, now - self._started_at)
        yield [Finished([text.finished() for text in texts], usage, timings, job.detected, job.pivots)]

    def _count_as_sent(self, characters: int) -> int:
        """None of them is left."""
        self.characters_sent += characters
        return 0

    async def _give_way(self) -> None:
        if self._is_long:
            await self._first_tokens.give_way()
        else:
            await asyncio.sleep(0)

    async def _reports_of(self, generation: Generation) -> AsyncGenerator[list[SegmentReport]]:
        while reports := await generation.read(self._deadline):
            yield reports
        generation.close()
