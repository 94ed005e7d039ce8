"""A live session: source that grows and is corrected, and its translation, which is only ever appended to."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from service.errors import EngineFailed, QueueFull, ServiceError, is_error
from service.live.account import LiveAccount
from service.live.decoding import Committed, Decoder, Sentence
from service.live.event_log import EventLog
from service.live.events import Commit, Draft, Ended, Kept, Revision, Segment
from service.live.policies import KEPT_HYPOTHESES, RULES, Hypothesis, Policy, State, Token
from service.live.source import LiveSource
from service.live.words import ends_sentence, whole_words, word_starts

logger = logging.getLogger(__name__)

_CUT_WORDS: Final = 60
"""A sentence with so many words is finished where it stands; one with half of them, at a clause mark."""
_CLAUSE_MARKS: Final = (",", ";", ":", "،", "，", "、", "；", "—", "–")
_RETRY_SECONDS: Final = 0.1
_MOST_FAILURES: Final = 3
"""Failures of one update in a row, after which the session ends."""


class Options(NamedTuple):
    """The choices of a session's client."""

    policy: Policy
    language: str
    """The language of the source."""
    revises: bool = False


class Start(NamedTuple):
    """The place from which another server's session goes on: `committed` is the number of committed characters."""

    source_start: int = 0
    segment: int = 0
    committed: int = 0


def _nobody(*_: float) -> None: ...


class LiveObserver(NamedTuple):
    """The receivers of sessions' measurements."""

    updated: Callable[[float], None] = _nobody
    """Gets the seconds from a change of the source to its results."""
    overtaken: Callable[[], None] = _nobody
    opened: Callable[[int], None] = _nobody
    """Gets the number of sessions that there are now."""


class LiveSession:
    """One session. Writers change the source at any time; one reader at a time takes the events.

    Changes that come during an update are translated together by the next one.
    """

    def __init__(
        self,
        decoder: Decoder,
        options: Options,
        account: LiveAccount,
        start: Start,
        committed: Committed,
        observer: LiveObserver,
    ) -> None:
        """`committed` is what another server has committed of the sentence at `start`."""
        self._decoder = decoder
        self.account = account
        self._options = options
        self._observer = observer
        self.source = LiveSource(start.source_start)
        self._segment = start.segment
        self._index = start.committed
        self._committed = committed
        self._earlier: deque[Sequence[Token]] = deque(maxlen=KEPT_HYPOTHESES)
        self.log = EventLog()
        self._has_changed = asyncio.Event()
        self._changed_at = 0.0
        self._decoding: asyncio.Task[Hypothesis] | None = None
        self._decodes_finished = self._is_overtaken = False
        self._may_overtake = True
        self._revisions: set[asyncio.Task[None]] = set()
        self._ends = False
        self._is_settled = asyncio.Event()
        self.touched_at = time.monotonic()
        """The time of the last message of a client."""
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self.log.close()
        self._is_settled.set()

    def append(self, text: str) -> None:
        """Add text at the end of the source. Raises `TooLong`."""
        self.source.append(text)
        self._change()

    def replace(self, position: int, text: str) -> None:
        """Replace the source from a position on; what is committed stays. Raises `InvalidRequest` and `TooLong`."""
        committed_until, end = self.source.start + self._committed.source_end, self.source.end
        position = self.source.replace(position, text)
        if position < committed_until:
            self.log.report(Kept(position, committed_until))
        self._change(is_correction=position < end)

    def finish(self, position: int | None = None) -> None:
        """Mark the source as final up to a position, by default all of it. Raises `InvalidRequest`."""
        self.source.finish(position)
        self._change()

    def end(self) -> None:
        """Mark all as final, and end the session after it is translated."""
        self.source.finish()
        self._ends = True
        self._change()

    def fail(self, error: ServiceError) -> None:
        """End the session: its reader gets `error` after what has been committed."""
        self.log.close(error)
        self.close()

    def close(self) -> None:
        """Stop translating; may be called twice."""
        for each in (self._task, *self._revisions):
            each.cancel()

    @property
    def is_over(self) -> bool:
        return self._task.done() or self.log.has_failed

    async def settled(self) -> None:
        """Wait until all of the source is translated, as far as the policy lets, or the session is over."""
        await self._is_settled.wait()

    def _change(self, *, is_correction: bool = False) -> None:
        self.touched_at = time.monotonic()
        self._changed_at = self._changed_at or self.touched_at
        self._has_changed.set()
        self._is_settled.clear()
        # One update between two results may be cancelled: a client that never pauses gets results, too. What
        # translates corrected text is cancelled in any case, and a finished sentence only then.
        if self._decoding is not None and (is_correction or (self._may_overtake and not self._decodes_finished)):
            self._may_overtake, self._is_overtaken = False, True
            self._observer.overtaken()
            self._decoding.cancel()

    async def _run(self) -> None:
        failures = 0
        while True:
            if not self._has_changed.is_set():
                self._is_settled.set()
            await self._has_changed.wait()
            self._has_changed.clear()
            changed_at, self._changed_at = self._changed_at, 0.0
            try:
                await self._update()
                failures, self._may_overtake = 0, True
                self._observer.updated(time.monotonic() - changed_at)
            except _OvertakenError:
                self._changed_at = changed_at
                continue
            except BaseException as error:
                if not is_error(error):
                    raise
                failures += 1
                if not _passes(error, failures):
                    if not isinstance(error, ServiceError):
                        logger.exception("a live session failed")
                    self.log.close(error if isinstance(error, ServiceError) else ServiceError("internal error"))
                    return
                await asyncio.sleep(_RETRY_SECONDS)
                self._changed_at = self._changed_at or changed_at
                self._has_changed.set()
            if self._ends and not self._has_changed.is_set() and not self.source.text:
                if self._committed.text:  # of a sentence that was taken away
                    self._leave("")
                await asyncio.gather(*self._revisions)
                self.log.report(Ended(self._segment, self.source.end, self._index))
                return

    async def _update(self) -> None:
        """Translate finished sentences, and as much as the policy lets of the last one."""
        while (sentence := self._decoder.sentence(self.source.text)) is not None:
            is_finished = sentence.is_followed or self._is_finished(sentence)
            if not is_finished and self._options.policy.name == "sentence":
                return
            draft = self._earlier[0] if self._earlier else ()
            self._decodes_finished = is_finished
            work = self._decoder.hypothesis(sentence, self._committed, draft, is_finished=is_finished)
            hypothesis = await self._unless_overtaken(work)
            if not is_finished:
                self._extend(sentence, hypothesis)
                return
            self._commit(sentence, hypothesis.tokens, len(sentence.text))
            self._finish(sentence)

    async def _unless_overtaken(self, work: Coroutine[Any, Any, Hypothesis]) -> Hypothesis:
        self._is_overtaken = False
        decoding = self._decoding = asyncio.create_task(work)
        try:
            await asyncio.wait([decoding])
        finally:
            self._decoding = None
            decoding.cancel()
        # It may have ended before it was cancelled.
        if self._is_overtaken or decoding.cancelled():
            raise _OvertakenError
        return decoding.result()

    def _is_finished(self, sentence: Sentence) -> bool:
        text = sentence.text
        if self.source.final_until >= self.source.start + len(text):
            return True
        words = len(word_starts(text))
        if words >= _CUT_WORDS or (2 * words >= _CUT_WORDS and text.rstrip().endswith(_CLAUSE_MARKS)):
            return True
        return ends_sentence(text, self._options.language)

    def _extend(self, sentence: Sentence, hypothesis: Hypothesis) -> None:
        """Commit what the policy and whole words let of an unfinished sentence; the rest is the draft."""
        policy, committed, tokens = self._options.policy, self._committed, hypothesis.tokens
        state = State(hypothesis, [*self._earlier], word_starts(sentence.text), len(committed.text.split()))
        count = whole_words(committed.text, tokens, RULES[policy.name](policy, state))
        places = [token.place for token in tokens[:count] if token.place is not None]
        ends = [*state.word_starts, len(sentence.text)]
        end = next((each for each in ends if each > max(places)), len(sentence.text)) if places else 0
        self._commit(sentence, tokens[:count], end)
        self._earlier = deque((each[count:] for each in self._earlier), maxlen=KEPT_HYPOTHESES)
        self._earlier.appendleft(tokens[count:])
        self.log.show(Draft(self._segment, "".join(token.text for token in tokens[count:])))

    def _commit(self, sentence: Sentence, tokens: Sequence[Token], source_end: int) -> None:
        committed, text = self._committed, "".join(token.text for token in tokens)
        terms = sentence.encoded.segment.terms
        committed.ids += [token.token_id for token in tokens]
        committed.terms += [None if token.term is None else terms[token.term] for token in tokens]
        committed.text += text
        committed.source_end = max(committed.source_end, source_end)
        if text:
            self.log.report(Commit(self._segment, self._index, text, self.source.start + committed.source_end))
            self._index += len(text)

    def _finish(self, sentence: Sentence) -> None:
        """Let a finished sentence leave, and revise it beside the next ones."""
        number = self._segment
        self._leave(sentence.text)
        if self._options.revises:
            revision = asyncio.create_task(self._revise(number, sentence))
            self._revisions.add(revision)
            revision.add_done_callback(self._revisions.discard)

    async def _revise(self, number: int, sentence: Sentence) -> None:
        # A failure leaves the sentence as it was committed.
        with suppress(ServiceError):
            self.log.report(Revision(number, await self._decoder.revision(sentence)))

    def _leave(self, source: str) -> None:
        self.source.drop(len(source))
        self.log.report(Segment(self._segment, source, self._committed.text, self.source.start))
        self._committed, self._segment = Committed(), self._segment + 1
        self._earlier.clear()
        self.log.show(Draft(self._segment, ""))


def _passes(error: BaseException, failures: int) -> bool:
    """Return True for an error after which the update is tried again."""
    return isinstance(error, QueueFull) or (isinstance(error, EngineFailed) and failures <= _MOST_FAILURES)


class _OvertakenError(Exception):
    """The source has changed while it was translated."""
