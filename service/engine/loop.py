"""The engine's loop: take commands, run a block of steps, report. One thread, but for those within an operator."""

import logging
import time
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from service.engine.batching import ONE_STEP, Block, PlainTensors, StepScores, StepTokens, source_batch, step_batch
from service.engine.messages import Admitted, Cancel, Command, Report, StepReport, StepStats, Submit
from service.engine.runner import DeviceLost, Runner
from service.engine.scheduler import Plan, Scheduler
from service.engine.sequences.plain import PlainProgress
from service.engine.sequences.rows import Row
from service.engine.token_selection import Steps, select_tokens

logger = logging.getLogger(__name__)

LONG_BLOCK: Final = Block(32, 0.002)
"""Steps of a block while nobody waits. A request that comes meanwhile waits for its end."""
SHORT_BLOCK: Final = Block(4, 0.0005)
"""Steps of a block while a first token is due or a request waits for a slot: longer blocks leave slots empty longer."""


OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000
"""Python's default of 700 is less than one step of beams has: hypotheses are many objects that live for some steps,
without cycles."""


class Channel(Protocol):
    """The engine's end of the channel to the HTTP process."""

    def receive(self, *, wait: bool) -> list[Command] | None:
        """Commands that have arrived, at least one if `wait`; None when the other end is gone."""
        ...

    def send(self, report: Report) -> None: ...


class EngineLoop:
    """Runs until the channel closes; raises `DeviceLost`."""

    def __init__(self, scheduler: Scheduler, runner: Runner, channel: Channel) -> None:
        self._scheduler = scheduler
        self._plain = PlainTensors(scheduler.table)
        self._runner = runner
        self._channel = channel
        self._submitted_at: dict[int, float] = {}

    def run(self) -> None:
        while (commands := self._channel.receive(wait=not self._scheduler.has_work)) is not None:
            for command in commands:
                self._execute(command)
            if self._scheduler.has_work:
                self.step()
            elif commands:
                # All were cancelled: report it, or the gauges would show the last step for ever.
                self._channel.send(StepReport([], self._stats()))

    def step(self) -> None:
        """Schedule, run, choose, update: every running request advances."""
        plan = self._scheduler.schedule()
        if plan.admitted:
            self._announce([each.request_id for each in plan.admitted])
        started = time.monotonic()
        try:
            groups = [each.sequence.rows() for each in plan.running]
            if plan.admitted:
                self._runner.prefill(source_batch(plan.admitted))
            encoded = time.monotonic()
            chosen, scores = self._decode(plan, groups)
            progress = self._plain.advance(plan.plain, _plain_tokens(plan, scores))
        except DeviceLost:
            raise
        except Exception:
            # Any error of a step, out of memory or a bad index, ends the step's own requests, not the engine: a
            # request that killed its engine would be given to the next one, and the next.
            logger.exception("step failed", extra={"requests": len(plan.running) + len(plan.plain)})
            failed = self._scheduler.fail(plan)
            self._channel.send(StepReport([], self._stats(), failed))
            return
        seconds, steps = time.monotonic() - encoded, len(scores.tokens)
        report = self._update(plan, chosen, progress)
        stats = StepStats(
            self._scheduler.slots_used,
            batch_rows=scores.tokens.shape[1],
            steps=steps,
            source_tokens=sum(len(each.request.prompt.source_ids) for each in plan.admitted),
            encode_seconds=encoded - started if plan.admitted else None,
            step_seconds=seconds / steps,
        )
        self._channel.send(replace(report, stats=stats))

    def _update(self, plan: Plan, chosen: Sequence[Steps], plain: PlainProgress) -> StepReport:
        self._scheduler.end(plain.ended)
        failed = self._scheduler.end(plain.failed)
        progress = self._scheduler.update(plan, chosen)
        return StepReport(progress.tokens, self._stats(), failed + progress.failed, progress.beams, plain.block)

    def _announce(self, request_ids: list[int]) -> None:
        now = time.monotonic()
        self._channel.send(Admitted(request_ids, [now - self._submitted_at.pop(each) for each in request_ids]))

    def _decode(self, plan: Plan, groups: Sequence[Sequence[Row]]) -> tuple[list[Steps], StepScores]:
        """Return the extensions of each request that is not plain, and the results of all rows."""
        copies = [copy for each in plan.running for copy in each.sequence.copies()]
        plain = self._plain.queries(plan.plain)
        batch = step_batch(groups, copies, self._scheduler.bos_id, plain, self._block(plan))
        scores = self._runner.decode(batch)
        return select_tokens(groups, batch, scores) if groups else [], scores

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

    def _stats(self) -> StepStats:
        return StepStats(self._scheduler.slots_used)


def _plain_tokens(plan: Plan, scores: StepScores) -> StepTokens:
    """Return the results of the plain rows, which are the last ones."""
    first = scores.tokens.shape[1] - len(plan.plain)
    return StepTokens(scores.tokens[:, first:], scores.logprobs[:, first:], scores.counts)
