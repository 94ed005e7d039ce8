"""A translation in progress: it reads the tokens of its segments and yields events in the order of the text."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, Literal, NamedTuple

from service.errors import DeadlineExceeded, ServiceError, is_error
from service.registry.model_version import RemoteModel
from service.registry.served_model import ServedModel
from service.translation.assembly import (
    SegmentAssembly,
    TextAssembly,
    Version,
    segment_finished,
)
from service.translation.events import (
    Event,
    Finished,
    ModelLoading,
    Started,
    Timings,
    TokenGenerated,
    Usage,
)
from service.translation.options import TranslationOptions
from service.translation.preprocess import EncodedSegment
from service.translation.window import SegmentInFlight, SegmentWindow, in_background

LONGEST_WAIT_SECONDS: Final = 30.0
"""A response begins only when engines can answer; a request waits no longer for it.

Two slow cores that are busy take more than half of that to start an engine.
"""
_MOST_AT_ONCE: Final = 128
"""Events after which others have their turn, even if there are more."""
_LOADING_SECONDS: Final = 0.5
"""Interval between two looks at the progress of a model that is fetched."""


class Work(NamedTuple):
    """The segments of a request, made lazily: a book is not split before its first sentence is translated."""

    segments: Iterator[EncodedSegment]
    models: Collection[ServedModel]
    """The models that translate them."""


class Progress(NamedTuple):
    """The progress of a translation, with times of `time.monotonic`."""

    started_at: float
    admitted_at: float | None
    """The time when the first translated segment got its slot."""
    first_token_at: float | None
    ended_at: float
    segments: int
    source_tokens: int
    generated_tokens: int


class Translation:
    """A request in progress. `events` are in the order of the text, whatever order its segments are finished in."""

    def __init__(
        self,
        started: Started,
        texts: int,
        options: TranslationOptions,
        window: SegmentWindow,
        on_close: Callable[["Translation"], None],
    ) -> None:
        """`started` is the first event, `texts` the number of texts."""
        self._started = started
        self._options = options
        self._window = window
        self._on_close = on_close
        self._failure: ServiceError | None = None
        self._started_at = time.monotonic()
        self._models: Collection[ServedModel] = ()
        self._missing: Sequence[RemoteModel] = ()
        self._fetching: asyncio.Task[None] | None = None
        self._texts = [TextAssembly(options.beam.alternatives) for _ in range(texts)]
        self._segments = 0
        self._generated_tokens = 0
        self._first_token_at: float | None = None
        self.characters_sent = 0
        """Characters of the sentences whose translation `events` has begun to yield."""

    def fetch(self, missing: Sequence[RemoteModel], work: Callable[[], Work]) -> None:
        """Make and begin the work after missing models have been fetched; `events` raises the errors of all that."""
        self._missing = missing
        self._fetching = in_background(self._fetch(work))

    def begin(self, work: Work) -> None:
        """Keep the models in service, and submit the first segments. Raises the errors of preparing those."""
        self._models = work.models
        for model in self._models:
            model.acquire(self)
        self._window.start(work.segments)

    async def _fetch(self, work: Callable[[], Work]) -> None:
        await asyncio.gather(*(model.fetch() for model in self._missing))
        self.begin(work())

    @property
    def is_in_preparation(self) -> bool:
        """True until the first segments have been submitted."""
        return self._window.is_in_preparation

    def close(self) -> None:
        """Cancel all unfinished segments; may be called twice."""
        if self._fetching is not None:
            self._fetching.cancel()
        self._window.close()
        for model in self._models:
            model.release(self)
        self._on_close(self)

    def fail(self, error: ServiceError) -> None:
        """End the translation: `events` raises `error` next."""
        self._failure = error
        self._window.fail(error)

    def progress(self) -> Progress:
        """Return the progress until now, for traces."""
        first = self._window.first
        return Progress(
            self._started_at,
            None if first is None else first.admitted_at,
            self._first_token_at,
            time.monotonic(),
            self._segments,
            self._window.source_tokens,
            self._all_generated_tokens,
        )

    @property
    def _all_generated_tokens(self) -> int:
        return self._generated_tokens + self._window.pivot_tokens

    @property
    def lacks_engines(self) -> bool:
        """True while dead engines of one of its models are replaced, and none can answer."""
        return any(model.pool.replacing for model in self._models)

    async def wait_for_engines(self) -> None:
        """Wait while dead engines are replaced. Raises `NotReady` after 30 s, or at the deadline if that is earlier."""
        now = asyncio.get_running_loop().time
        until = min(self._window.deadline, now() + LONGEST_WAIT_SECONDS)
        for model in self._models:
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
        yield [self._started]
        async for loading in self._loading():
            yield loading
        # Together until there are no more for the moment: each send has its price.
        events: list[Event] = []
        try:
            async for arrived in self._arrivals():
                events += arrived
                if events and (not arrived or len(events) >= _MOST_AT_ONCE):
                    yield events
                    events = []
                    await self._window.give_way()
        except BaseException as error:
            if events and is_error(error):
                yield events
            raise
        yield [self._finished()]

    async def _arrivals(self) -> AsyncGenerator[Sequence[Event]]:
        """Yield the events of all segments as they arrive, and () each time that there are no more for the moment."""
        options = self._options
        while current := await self._next():
            sent = self.characters_sent + len(current.encoded.segment.text)
            if not current.is_handed_over:
                yield ()
            for submitted in await current.final_segments():
                encoded, index = submitted.encoded, self._segments
                segment, text = encoded.segment, self._texts[encoded.text_index]
                self._segments += 1
                finished = partial(segment_finished, index, encoded, current.source)
                if submitted.reader is None:
                    self.characters_sent = sent
                    copied = Version(segment.copied_text, 0.0, 0)
                    origin: Literal["copied", "memory"] = "copied" if segment.remembered is None else "memory"
                    end = finished([copied], origin, with_alternatives=False)
                    yield TokenGenerated(index, 0, copied.text, None), end
                    text.add(segment, [copied])
                    continue
                assembly = SegmentAssembly(index, encoded, shows_alignment=options.inspect.alignment)
                is_last = False
                while not is_last:
                    if not submitted.reader.has_unread:
                        yield ()
                    events = assembly.events(await submitted.reader.read(self._window.deadline))
                    is_last = assembly.is_finished
                    if self._first_token_at is None and assembly.tokens:
                        self._first_token_at = time.monotonic()
                        self._window.first_token_arrived()
                    self.characters_sent = sent
                    if is_last:
                        self._generated_tokens += assembly.tokens
                        versions = assembly.versions()
                        text.add(segment, versions)
                        reason = "length" if submitted.is_cut else assembly.finish_reason
                        events.append(finished(versions, reason, with_alternatives=options.beam.alternatives > 0))
                    yield events
                submitted.reader.close()
            self._window.advance()
            if not self._window.has_next:
                yield ()
        yield ()

    def _finished(self) -> Finished:
        now = time.monotonic()
        usage = Usage(self._segments, self._window.source_tokens, self._all_generated_tokens)
        timings = Timings((self._first_token_at or now) - self._started_at, now - self._started_at)
        texts = [text.finished() for text in self._texts]
        return Finished(texts, usage, timings, self._started.detected, self._started.pivots)

    async def _loading(self) -> AsyncGenerator[Sequence[ModelLoading]]:
        """Yield the progress of missing models, if there are any, until all are here and the first segments submitted.

        Raises `DeadlineExceeded`, the error of a fetch, and the error passed to `fail`.
        """
        if self._fetching is None:
            return
        now = asyncio.get_running_loop().time
        shown: list[ModelLoading] = []
        while not self._fetching.done():
            if self._failure is not None:
                raise self._failure
            progress = [(model.name, model.progress()) for model in self._missing]
            loading = [ModelLoading(name, each.step, each.percent) for name, each in progress]
            if now() >= self._window.deadline:
                names = ", ".join(f"{each.model}: {each.step}" for each in loading)
                raise DeadlineExceeded(f"the model was not here in time; it is still being fetched ({names})")
            if loading != shown:
                yield (shown := loading)
            await asyncio.wait([self._fetching], timeout=min(_LOADING_SECONDS, self._window.deadline - now()))
        if not self._fetching.cancelled():
            self._fetching.result()

    async def _next(self) -> SegmentInFlight | None:
        """Return the next segment once it is submitted, or None at the end of the text."""
        current = await self._window.next()
        if current is not None and self._failure is not None:
            raise self._failure
        return current
