"""The segments of a request that are in flight: prepared and submitted ahead of the reader of their tokens."""

import asyncio
import time
from collections import deque
from collections.abc import Coroutine, Hashable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from service.engine.generation_request import GenerationRequest, Prompt, Search
from service.errors import DeadlineExceeded, ServiceError
from service.registry.served_model import ServedModel
from service.supervisor.generation import Reader
from service.translation.glossary_terms import NoPlace, TermWriter, with_placeholders
from service.translation.options import Limits, TranslationOptions, default_target_length
from service.translation.postprocess import pivot_sentence
from service.translation.preprocess import EncodedSegment

_Result = TypeVar("_Result")
_BACKGROUND_SEGMENTS: Final = 8
"""Segments of a document that are decoded at once."""
_LONGEST_WAIT_SECONDS: Final = 0.02
"""The longest time for which a long text waits, even if requests for a first token never end."""
_LOOK_AHEAD_SECONDS: Final = 0.05
"""Processor time of one look-ahead; the rest of the text is prepared later."""


class FirstTokenPriority:
    """The requests in this process that still wait for their first token: those that stream already give way."""

    def __init__(self) -> None:
        self._waiting: set[Hashable] = set()
        self._none_waiting = asyncio.Event()

    def expect(self, request: Hashable) -> None:
        """Add a request that waits."""
        self._waiting.add(request)
        self._none_waiting.clear()

    def arrived(self, request: Hashable) -> None:
        """Remove a request that has its first token, or is closed; may be called twice."""
        self._waiting.discard(request)
        if not self._waiting:
            self._none_waiting.set()

    async def wait_for_others(self) -> None:
        """Wait until no request waits, for 20 ms at most; always yield to the event loop once."""
        if not self._waiting:
            await asyncio.sleep(0)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                await self._none_waiting.wait()


class SegmentInFlight(NamedTuple):
    """A segment submitted to an engine, or copied."""

    encoded: EncodedSegment
    reader: Reader | None
    is_cut: bool = False
    """True if the first model's translation was cut at its maximum length."""
    second: "asyncio.Task[Sequence[SegmentInFlight]] | None" = None
    """Hands the first model's translation over to the second model, or puts the terms of a glossary into it."""

    @property
    def source(self) -> tuple[int, int]:
        """The span of its sentence in the text; both models' segments of a pivot route have the first one's."""
        return self.encoded.offset, self.encoded.offset + len(self.encoded.segment.source_sentence)

    @property
    def is_handed_over(self) -> bool:
        """True if `final_segments` returns at once."""
        return self.second is None or self.second.done()

    async def final_segments(self) -> "Sequence[SegmentInFlight]":
        """Return the segments whose translations are sent; raises the error of the first model."""
        return [self] if self.second is None else await self.second

    def readers(self) -> Iterator[Reader]:
        """Yield the readers of both models' translations, as far as there are any yet."""
        second, known = self.second, [self]
        if second is not None and second.done() and not second.cancelled() and second.exception() is None:
            known += second.result()
        return (each.reader for each in known if each.reader is not None)


class SegmentWindow:
    """The window of one request over its segments: as many as may be in flight, in the order of the text.

    Prepares a segment when there is room for it, and submits it to the engines of its model. Knows no events.
    """

    def __init__(
        self,
        options: TranslationOptions,
        limits: Limits,
        executor: Executor | None,
        priority: FirstTokenPriority,
    ) -> None:
        """`executor` prepares a long text outside of the event loop; None prepares a short text in it.

        `priority` makes long texts give way until the first token of other requests has come.
        """
        self._options = options
        self.deadline = asyncio.get_running_loop().time() + (options.timeout_seconds or limits.timeout_seconds)
        """The end of the request's time, on the event loop's clock."""
        self._executor = executor
        self._priority = priority
        # A beam holds a slot for each hypothesis: long texts leave as many slots to others as without a beam.
        in_flight = limits.max_segments_in_flight
        if options.is_background:
            in_flight = min(in_flight, _BACKGROUND_SEGMENTS)
        self._size = max(in_flight // options.beam.size, 1)
        self._segments: Iterator[EncodedSegment] = iter(())
        self._ahead: deque[SegmentInFlight] = deque()
        self._filling: asyncio.Task[None] | None = None
        self.source_tokens = 0
        """Source tokens of all segments submitted so far."""
        self.pivot_tokens = 0
        """Tokens that first models have generated for second models."""
        self.first: Reader | None = None
        """The first segment that is translated, not copied."""
        self.is_in_preparation = True
        """True until the first segments have been submitted."""
        self.is_long = options.is_background
        """True if the text fills the window, or is part of a document."""

    def start(self, segments: Iterator[EncodedSegment]) -> None:
        """Submit the first segments; those of a long text in the background."""
        self._segments = segments
        self._fill()

    @property
    def has_next(self) -> bool:
        """False if `next` may wait."""
        return bool(self._ahead) or self._filling is None

    async def next(self) -> SegmentInFlight | None:
        """Return the first segment of the window once it is submitted, or None at the end of the text.

        Raises `DeadlineExceeded`, and the errors of preparing and submitting.
        """
        if not self._ahead and self._filling is not None:
            filling = self._filling
            await asyncio.wait([filling], timeout=self.deadline - asyncio.get_running_loop().time())
            if not filling.done():
                raise DeadlineExceeded("the translation was not finished in time")
            self._filling = None
            if not filling.cancelled():
                filling.result()
        return self._ahead[0] if self._ahead else None

    def first_token_arrived(self) -> None:
        """Note that the request waits no more for its first token; may be called twice."""
        self._priority.arrived(self)

    async def give_way(self) -> None:
        """Let others have their turn; a long text waits for the first tokens of other requests."""
        if self.is_long:
            await self._priority.wait_for_others()
        else:
            await asyncio.sleep(0)

    def advance(self) -> None:
        """Drop the first segment, which has been read to its end, and submit others; do nothing if it is closed."""
        if self._ahead:
            self._ahead.popleft()
            self._fill()

    def fail(self, error: ServiceError) -> None:
        """End all segments in flight: whoever reads them gets `error`."""
        for each in self._ahead:
            for reader in each.readers():
                reader.fail(error)

    def close(self) -> None:
        """Cancel all unfinished segments; may be called twice."""
        if self._filling is not None:
            self._filling.cancel()
        while self._ahead:
            each = self._ahead.popleft()
            for reader in each.readers():
                reader.close()
            if each.second is not None:
                each.second.cancel()
        self.is_in_preparation = False
        self.first_token_arrived()

    def _fill(self) -> None:
        """Submit as many of the next segments as the window has room for."""
        if self._executor is None:
            self._submit_all(self._prepare(self._size - len(self._ahead)))
        elif self._filling is None or self._filling.done():
            if self._filling is not None:
                self._filling.result()
            self._filling = in_background(self._fill_in_background(self._executor))

    async def _fill_in_background(self, executor: Executor) -> None:
        count = self._size - len(self._ahead)
        prepared = await asyncio.get_running_loop().run_in_executor(executor, self._prepare, count)
        self._submit_all(prepared)

    def _prepare(self, count: int) -> list[EncodedSegment]:
        """Prepare the next segments, at most `count`; at least one if the text has more. Runs in any thread."""
        # All are prepared before any is submitted, so that an engine gets them in one batch; but a text that is slow to
        # split, or an adversarial glossary, must leave time to others.
        until = time.thread_time() + _LOOK_AHEAD_SECONDS
        prepared: list[EncodedSegment] = []
        for segment in islice(self._segments, count):
            prepared.append(segment)
            if time.thread_time() >= until:
                break
        return prepared

    def _submit_all(self, prepared: Sequence[EncodedSegment]) -> None:
        # The deadline is otherwise checked while waiting for the engine, which a fast engine never makes necessary.
        if prepared and asyncio.get_running_loop().time() >= self.deadline:
            raise DeadlineExceeded("the translation was not finished in time")
        for encoded in prepared:
            first = self._submit(encoded)
            second = self._second_step(first)
            self._ahead.append(first if second is None else first._replace(second=in_background(second)))
        if self.is_in_preparation:
            self.is_in_preparation = False
            self.is_long = self._options.is_background or len(self._ahead) == self._size
            if self.source_tokens and not self._options.is_background:
                self._priority.expect(self)

    def _submit(self, encoded: EncodedSegment, *, is_cut: bool = False) -> SegmentInFlight:
        self.source_tokens += len(encoded.source_ids)
        options = self._options if encoded.then is None else self._options.of_first()
        reader = (
            encoded.model.pool.submit(self._request(encoded, encoded.model, options), options.cache_scope)
            if encoded.model and encoded.source_ids
            else None
        )
        self.first = self.first or reader
        return SegmentInFlight(encoded, reader, is_cut)

    def _second_step(self, first: SegmentInFlight) -> Coroutine[Any, Any, Sequence[SegmentInFlight]] | None:
        """Return what is done with the first translation, if it is not the last one."""
        if first.reader is None:
            return None
        if first.encoded.then is not None:
            return self._hand_over(first)
        return self._write_terms(first) if first.encoded.glossary_terms else None

    async def _write_terms(self, first: SegmentInFlight) -> list[SegmentInFlight]:
        """Put the terms of a glossary into the free translation.

        The model reads placeholders instead of terms that have no place there.
        """
        encoded, reader, options = first.encoded, first.reader, self._options
        assert reader is not None
        assert encoded.model is not None
        submit = partial(encoded.model.pool.submit, scope=options.cache_scope)
        writer = TermWriter(encoded, self._request(encoded, encoded.model, options), submit, self.deadline)
        try:
            return [first._replace(reader=await writer.write(reader, keeps_attention=options.inspect.attention))]
        except NoPlace as error:
            other = self._submit(with_placeholders(encoded, error.numbers))
            return await self._write_terms(other) if other.encoded.glossary_terms else [other]

    async def _hand_over(self, first: SegmentInFlight) -> list[SegmentInFlight]:
        """Submit the first model's translation to the second model."""
        encoded, reader = first.encoded, first.reader
        assert reader is not None
        assert encoded.then is not None
        while await reader.read(self.deadline):
            pass
        reader.close()
        tokens = reader.tokens
        self.pivot_tokens += len(tokens)
        is_cut = tokens[-1].finish_reason == "length"
        return [self._submit(each, is_cut=is_cut) for each in encoded.then(encoded, pivot_sentence(encoded, tokens))]

    def _request(self, encoded: EncodedSegment, model: ServedModel, options: TranslationOptions) -> GenerationRequest:
        ids = encoded.source_ids
        given = len(encoded.forced_ids) + sum(len(encoded.terms[number].ids) for number in encoded.glossary_terms)
        length = options.max_new_tokens or default_target_length(len(ids), given, model)
        inspect = options.inspect
        if encoded.glossary_terms:
            inspect = replace(inspect, alignment=True, attention=True, hypotheses=False)
        elif encoded.segment.marks:
            inspect = replace(inspect, alignment=True)  # tags are placed by the alignment
        return GenerationRequest(
            Prompt(ids, list(encoded.prompt_ids)),
            Search(length, options.sampling, options.beam),
            replace(
                options.constraints,
                forced_ids=list(encoded.forced_ids),
                terms=list(encoded.copied_terms),
                closing_ids=list(encoded.closing_ids),
            ),
            inspect=inspect,
            yields_to_new=self.is_long,
        )


def in_background(work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
    """Start a task; its exception counts as retrieved, as nobody may await it."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
    return task
