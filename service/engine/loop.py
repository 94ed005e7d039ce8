"""The engine's loop: take commands, run a block of steps, report. One thread, apart from those within an operator."""

import logging
import select
import socket
import time
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from service.engine.batching import (
    ONE_STEP,
    Block,
    PlainTensors,
    StepBatch,
    StepScores,
    source_batch,
    step_batch,
)
from service.engine.messages import Admitted, Cancel, Command, Frames, Report, StepReport, StepStats, Submit, frame
from service.engine.runner import DeviceLost, Runner
from service.engine.scheduler import Plan, Running, Scheduler
from service.engine.sequences.plain import PlainProgress
from service.engine.sequences.rows import Row
from service.engine.token_selection import Steps, select_tokens

logger = logging.getLogger(__name__)

LONG_BLOCK: Final = Block(32, 0.002)
"""Limits of a block while no request waits. A request that comes meanwhile waits for its end."""
SHORT_BLOCK: Final = Block(4, 0.0005)
"""Limits of a block while a first token is due or a request waits for a slot: longer ones leave slots empty longer."""

_READ_BYTES: Final = 1 << 16

OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000
"""Python's default of 700 is less than one step of beams has: hypotheses are many objects that live for some steps,
without cycles."""


class Channel(Protocol):
    """The engine's end of the channel to the HTTP process."""

    def receive(self, *, wait: bool) -> list[Command] | None:
        """Commands that have arrived, at least one if `wait`; None when the other end is gone."""
        ...

    def send(self, report: Report) -> None: ...


class SocketChannel:
    """The engine's end of a stream socket. No thread: a busy one would slow every step."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._frames = Frames()
        self._decoder = msgspec.msgpack.Decoder(Command)

    def receive(self, *, wait: bool) -> list[Command] | None:
        """Return as `Channel` does."""
        commands: list[Command] = []
        while select.select([self._socket], [], [], None if wait and not commands else 0)[0]:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                return None
            commands += map(self._decoder.decode, self._frames.feed(data))
        return commands

    def send(self, report: Report) -> None:
        """Blocks while the HTTP process does not read, which is the backpressure we want. Raises ConnectionError."""
        self._socket.sendall(frame(report))


class EngineLoop:
    """Runs until the channel closes; raises `DeviceLost`."""

    def __init__(self, scheduler: Scheduler, runner: Runner, channel: Channel) -> None:
        self._scheduler = scheduler
        self._plain = PlainTensors(scheduler.table)
        self._runner = runner
        self._channel = channel
        self._submitted_at: dict[int, float] = {}
        self._began = self._decoding_since = 0.0

    def run(self) -> None:
        while (commands := self._channel.receive(wait=not self._scheduler.has_work)) is not None:
            for command in commands:
                self._execute(command)
            if self._scheduler.has_work:
                self.step()
            elif commands:
                # All were cancelled: without a report, the gauges would show the last step for ever.
                self._channel.send(StepReport([], StepStats(self._scheduler.slots_used)))

    def step(self) -> None:
        """Schedule, encode, decode, choose, update: every running request advances, or the step's own fail."""
        plan = self._scheduler.schedule()
        self._announce(plan.admitted)
        try:
            groups = [each.sequence.rows() for each in plan.running]
            self._encode(plan.admitted)
            batch = self._batch(plan, groups)
            scores = self._runner.decode(batch)
            steps = select_tokens(groups, batch, scores) if groups else []
            plain = self._plain.advance(plan.plain, scores)
        except DeviceLost:
            raise
        except Exception:
            report = self._fail(plan)
        else:
            report = self._update(plan, scores, steps, plain)
        self._channel.send(report)

    def _announce(self, admitted: Sequence[Running]) -> None:
        self._began = self._decoding_since = now = time.monotonic()
        if admitted:
            ids = [each.request_id for each in admitted]
            self._channel.send(Admitted(ids, [now - self._submitted_at.pop(each) for each in ids]))

    def _encode(self, admitted: Sequence[Running]) -> None:
        if admitted:
            self._runner.prefill(source_batch(admitted))
            self._decoding_since = time.monotonic()

    def _batch(self, plan: Plan, groups: Sequence[Sequence[Row]]) -> StepBatch:
        copies = [copy for each in plan.running for copy in each.sequence.copies()]
        return step_batch(groups, copies, self._scheduler.bos_id, self._plain.queries(plan.plain), self._block(plan))

    def _fail(self, plan: Plan) -> StepReport:
        """End the requests of a step that failed, out of memory or by a bad index, but not the engine.

        A request that killed its engine would be given to the next one, and the next.
        """
        logger.exception("step failed", extra={"requests": len(plan.running) + len(plan.plain)})
        failed = self._scheduler.fail(plan)
        return StepReport([], StepStats(self._scheduler.slots_used), failed)

    def _update(self, plan: Plan, scores: StepScores, steps: list[Steps], plain: PlainProgress) -> StepReport:
        count, batch_rows = scores.tokens.shape
        decode_seconds = time.monotonic() - self._decoding_since
        self._scheduler.end(plain.ended)
        failed = self._scheduler.end(plain.failed)
        progress = self._scheduler.update(plan, steps)
        stats = StepStats(
            self._scheduler.slots_used,
            batch_rows=batch_rows,
            steps=count,
            source_tokens=sum(len(each.request.prompt.source_ids) for each in plan.admitted),
            encode_seconds=self._decoding_since - self._began if plan.admitted else None,
            step_seconds=decode_seconds / count,
        )
        return StepReport(progress.tokens, stats, failed + progress.failed, progress.beams, plain.block)

    def _block(self, plan: Plan) -> Block:
        """Return the limits of the next block: the more requests wait, and the less they wait for, the shorter."""
        if self._scheduler.admits_more:
            return ONE_STEP
        return SHORT_BLOCK if plan.admitted or self._scheduler.waiting else LONG_BLOCK

    def _execute(self, command: Command) -> None:
        match command:
            case Submit(request_id, request, submitted_at):
                self._submitted_at[request_id] = submitted_at
                self._scheduler.add(request_id, request)
            case Cancel(request_id):
                self._submitted_at.pop(request_id, None)
                self._scheduler.cancel(request_id)
