"""A translation in progress: it submits segments to engines and yields events in the order of the text."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from itertools import islice
from typing import Final

from msgspec.structs import replace

from service.engine.messages import GenerationRequest, Prompt, Search
from service.errors import DeadlineExceeded, ServiceError
from service.registry.served_model import ServedModel
from service.supervisor.generation import Generation
from service.translation.events import Event, Finished, ModelLoading, Started, Timings, Usage
from service.translation.fairness import FirstTokenPriority
from service.translation.job import Job, Progress, Work
from service.translation.options import Limits, TranslationOptions, default_target_length
from service.translation.pivot import PivotHandover, SubmittedSegment, pivot_sentence
from service.translation.preprocess import EncodedSegment
from service.translation.results import SegmentAssembly, TextAssembly, Version, copied_events, segment_finished

LONGEST_WAIT_SECONDS: Final = 15.0
"""A response begins only when engines can answer; a request waits no longer for it."""
_BACKGROUND_SEGMENTS: Final = 8
"""Segments of a document that are decoded at once."""
_LOOK_AHEAD_SECONDS: Final = 0.05
"""Processor time of one look-ahead; the rest of the text is prepared later."""
_LOADING_SECONDS: Final = 0.5
"""Interval between two looks at the progress of a model that is fetched."""
_NO_WORK: Final = Work(iter(()), ())


class Translation:
    """A request in progress. Keeps a window of its segments in the engines; `events` are in the order of the text."""

    def __init__(
        self, job: Job, limits: Limits, priority: FirstTokenPriority, on_close: Callable[["Translation"], None]
    ) -> None:
        self.id = secrets.token_hex(8)
        """The `X-Request-ID` of a stream over HTTP, which is also in the log."""
        self._priority = priority
        self._job = job
        self._on_close = on_close
        self._failure: ServiceError | None = None
        self._started_at = time.monotonic()
        self._deadline = asyncio.get_running_loop().time() + (job.options.timeout_seconds or limits.timeout_seconds)
        # A beam holds a slot for each hypothesis: long texts leave as many slots to others as without a beam.
        in_flight = limits.max_segments_in_flight
        if job.options.is_background:
            in_flight = min(in_flight, _BACKGROUND_SEGMENTS)
        self._window = max(in_flight // job.options.beam.size, 1)
        self._ahead: deque[PivotHandover] = deque()
        self._filling: asyncio.Task[None] | None = None
        self._segments = 0
        self._source_tokens = 0
        self._generated_tokens = 0
        self._first: Generation | None = None
        self._first_token_at: float | None = None
        self.characters_sent = 0
        """Characters of the sentences whose translation `events` has begun to yield."""
        self.is_in_preparation = True
        """True until the first segments have been submitted."""
        self._is_long = job.options.is_background
        self._work = _NO_WORK
        if job.missing:
            self._filling = asyncio.create_task(self._fetch())
            self._filling.add_done_callback(_mark_as_retrieved)
        else:
            try:
                self._begin()
                self._look_ahead()
            except BaseException:
                self.close()
                raise

    async def _fetch(self) -> None:
        """Fetch missing models, then submit the first segments."""
        await asyncio.gather(*(model.fetch() for model in self._job.missing))
        self._begin()
        if self._job.executor is None:
            self._submit_all(self._prepare(self._window))
        else:
            await self._fill(self._job.executor)

    def _begin(self) -> None:
        self._work = self._job.begin()
        for model in self._work.models:
            model.acquire(self)

    def _look_ahead(self) -> None:
        """Submit the next segments of the text, as many as the window allows; if it is long, in the background."""
        if self._job.executor is None:
            self._submit_all(self._prepare(self._window - len(self._ahead)))
        elif self._filling is None or self._filling.done():
            if self._filling is not None:
                self._filling.result()
            self._filling = asyncio.create_task(self._fill(self._job.executor))
            self._filling.add_done_callback(_mark_as_retrieved)

    async def _fill(self, executor: Executor) -> None:
        count = self._window - len(self._ahead)
        prepared = await asyncio.get_running_loop().run_in_executor(executor, self._prepare, count)
        self._submit_all(prepared)

    def _prepare(self, count: int) -> list[EncodedSegment]:
        """Prepare the next segments, at most `count`; at least one if the text has more. Runs in any thread."""
        # All are prepared before any is submitted, so that an engine gets them in one batch; but a text that is slow to
        # split, or an adversarial glossary, must leave time to others.
        until = time.thread_time() + _LOOK_AHEAD_SECONDS
        prepared: list[EncodedSegment] = []
        for segment in islice(self._work.segments, count):
            prepared.append(segment)
            if time.thread_time() >= until:
                break
        return prepared

    def _submit_all(self, prepared: Sequence[EncodedSegment]) -> None:
        # The deadline is otherwise checked while waiting for the engine, which a fast engine never makes necessary.
        if prepared and asyncio.get_running_loop().time() >= self._deadline:
            raise DeadlineExceeded("the translation was not finished in time")
        for work in prepared:
            first = self._submit(work)
            is_last = work.then is None or first.generation is None
            self._ahead.append(PivotHandover(first, None if is_last else self._hand_over(first)))
        if self.is_in_preparation:
            self.is_in_preparation = False
            is_background = self._job.options.is_background
            self._is_long = is_background or len(self._ahead) == self._window
            if self._source_tokens and not is_background:
                self._priority.expect(self)

    async def _next(self) -> PivotHandover | None:
        """Return the next segment once it is submitted, or None at the end of the text."""
        if not self._ahead and self._filling is not None:
            filling = self._filling
            await asyncio.wait([filling], timeout=self._deadline - asyncio.get_running_loop().time())
            if not filling.done():
                raise DeadlineExceeded("the translation was not finished in time")
            self._filling = None
            if not filling.cancelled():
                filling.result()
        if not self._ahead:
            return None
        if self._failure is not None:
            raise self._failure
        return self._ahead[0]

    def _submit(self, work: EncodedSegment, *, is_cut: bool = False) -> SubmittedSegment:
        self._source_tokens += len(work.source_ids)
        options = self._job.options if work.then is None else self._job.options.of_first()
        generation = (
            work.model.submit(self._request(work, work.model, options), options.cache_scope)
            if work.model and work.source_ids
            else None
        )
        self._first = self._first or generation
        return SubmittedSegment(work, generation, is_cut)

    async def _hand_over(self, first: SubmittedSegment) -> list[SubmittedSegment]:
        """Submit the first model's translation to the second model."""
        assert first.generation is not None
        assert first.encoded.then is not None
        while await first.generation.read(self._deadline):
            pass
        first.generation.close()
        tokens = first.generation.tokens
        self._generated_tokens += len(tokens)
        is_cut = tokens[-1].finish_reason == "length"
        sentence = pivot_sentence(first.encoded, tokens)
        return [self._submit(each, is_cut=is_cut) for each in first.encoded.then(first.encoded, sentence)]

    def _request(self, work: EncodedSegment, model: ServedModel, options: TranslationOptions) -> GenerationRequest:
        ids = work.source_ids
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
        """Cancel all unfinished segments; may be called twice."""
        if self._filling is not None:
            self._filling.cancel()
        while self._ahead:
            self._ahead.popleft().close()
        self.is_in_preparation = False
        self._priority.arrived(self)
        for model in self._work.models:
            model.release(self)
        self._on_close(self)

    def fail(self, error: ServiceError) -> None:
        """End the translation: `events` raises `error` next."""
        self._failure = error
        for each in self._ahead:
            each.fail(error)

    def progress(self) -> Progress:
        """Return the progress until now, for traces."""
        return Progress(
            self._started_at,
            None if self._first is None else self._first.admitted_at,
            self._first_token_at,
            time.monotonic(),
            self._segments,
            self._source_tokens,
            self._generated_tokens,
        )

    @property
    def lacks_engines(self) -> bool:
        """True while dead engines of one of its models are replaced, and none can answer."""
        return any(model.pool.replacing for model in self._work.models)

    async def wait_for_engines(self) -> None:
        """Wait while dead engines are replaced. Raises `NotReady` after 15 s, or at the deadline if that is earlier."""
        now = asyncio.get_running_loop().time
        until = min(self._deadline, now() + LONGEST_WAIT_SECONDS)
        for model in self._work.models:
            await model.wait_for_engines(until - now())

    async def finished(self) -> Finished:
        """Wait for engines, and return the last of `events`; raises the errors of both."""
        await self.wait_for_engines()
        async with aclosing(self.events()) as stream:
            async for events in stream:
                if isinstance(last := events[-1], Finished):
                    return last
        raise AssertionError("a translation ends with Finished")

    async def events(self) -> AsyncGenerator[Sequence[Event]]:
        """Yield events in the order of the text, as many at a time as are available; the last one is `Finished`.

        Raises `DeadlineExceeded`, `EngineFailed`, and the error passed to `fail`.
        """
        job = self._job
        yield [Started(self.id, job.source, job.target, job.detected, job.pivots)]
        async for loading in self._loading():
            yield loading
        wanted = job.options.beam.alternatives
        texts = [TextAssembly(wanted) for _ in range(job.texts)]
        while current := await self._next():
            unsent = current.characters
            for submitted in await current.final_segments():
                work, number = submitted.encoded, self._segments
                self._segments += 1
                if submitted.generation is None or work.model is None:
                    unsent = self._count_as_sent(unsent)
                    yield copied_events(number, work.text_index, work.segment)
                    texts[work.text_index].add([Version(work.segment.copied_text, 0.0, 0)])
                    # A book of numbers would otherwise hold the event loop.
                    await self._give_way()
                    continue
                text_offset = work.offset if job.options.inspect.alignment else None
                assembly = SegmentAssembly(
                    number, work.segment, work.model.tokenizer, work.spans, text_offset, len(work.forced_ids)
                )
                is_last = False
                while not is_last:
                    events = assembly.events(await submitted.generation.read(self._deadline))
                    is_last = assembly.is_finished
                    if self._first_token_at is None and assembly.tokens:
                        self._first_token_at = time.monotonic()
                        self._priority.arrived(self)
                    unsent = self._count_as_sent(unsent)
                    if is_last:  # its own event comes with the last token: each send has its price
                        self._generated_tokens += assembly.tokens
                        versions = assembly.versions()
                        texts[work.text_index].add(versions)
                        reason = "length" if submitted.is_cut else assembly.finish_reason
                        events.append(segment_finished(number, work.text_index, versions, reason, wanted > 0))
                    yield events
                    await self._give_way()
                submitted.generation.close()
            if self._ahead:  # not closed meanwhile
                self._ahead.popleft()
                self._look_ahead()
        now = time.monotonic()
        usage = Usage(self._segments, self._source_tokens, self._generated_tokens)
        timings = Timings((self._first_token_at or now) - self._started_at, now - self._started_at)
        yield [Finished([text.finished() for text in texts], usage, timings, job.detected, job.pivots)]

    async def _loading(self) -> AsyncGenerator[Sequence[ModelLoading]]:
        """Yield the progress of missing models, if there are any, until the work has begun."""
        now = asyncio.get_running_loop().time
        shown: list[ModelLoading] = []
        while self._filling is not None and not self._filling.done() and self._work is _NO_WORK:
            if self._failure is not None:
                raise self._failure
            progress = [(model.name, model.progress()) for model in self._job.missing]
            loading = [ModelLoading(name, each.step, each.percent) for name, each in progress]
            if now() >= self._deadline:
                names = ", ".join(f"{each.model}: {each.step}" for each in loading)
                raise DeadlineExceeded(f"the model was not here in time; it is still being fetched ({names})")
            if loading != shown:
                yield (shown := loading)
            await asyncio.wait([self._filling], timeout=min(_LOADING_SECONDS, self._deadline - now()))

    def _count_as_sent(self, characters: int) -> int:
        """Count a segment's characters once: returns how many are left to count, 0."""
        self.characters_sent += characters
        return 0

    async def _give_way(self) -> None:
        if self._is_long:
            await self._priority.wait_for_others()
        else:
            await asyncio.sleep(0)


def _mark_as_retrieved(task: asyncio.Task[None]) -> None:
    """Mark the exception of a task as retrieved, which nobody may await."""
    if not task.cancelled():
        task.exception()
