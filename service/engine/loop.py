"""The engine's loop: take commands, step, report. One thread, and nothing else in the process."""

import logging
import time
from collections.abc import Sequence
from typing import Protocol

from service.engine.batching import source_batch, step_batch
from service.engine.messages import Admitted, Cancel, Command, Report, StepReport, StepStats, Submit
from service.engine.runner import DeviceLost, Runner
from service.engine.scheduler import Plan, Scheduler
from service.engine.sequences.rows import Row
from service.engine.token_selection import Steps, select_tokens

logger = logging.getLogger(__name__)


class Channel(Protocol):
    """The engine's end of the channel to the HTTP process."""

    def receive(self, *, wait: bool) -> list[Command] | None:
        """Commands that have arrived, at least one if `wait`; None when the other end is gone."""
        ...

    def send(self, report: Report) -> None: ...


class EngineLoop:
    """Runs until the channel closes; raises `DeviceLost`."""

    def __init__(self, scheduler: Scheduler, runner: Runner, channel: Channel, bos_id: int) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._channel = channel
        self._bos_id = bos_id
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
            chosen, steps = self._decode(plan, groups)
        except DeviceLost:
            raise
        except Exception:
            # Any error of a step, out of memory or a bad index, ends the step's own requests, not the engine: a
            # request that killed its engine would be given to the next one, and the next.
            logger.exception("step failed", extra={"requests": len(plan.running)})
            failed = self._scheduler.fail(plan)
            self._channel.send(StepReport([], self._stats(), failed))
            return
        seconds = time.monotonic() - encoded
        progress = self._scheduler.update(plan, chosen)
        stats = StepStats(
            self._scheduler.slots_used,
            batch_rows=sum(map(len, groups)),
            steps=steps,
            source_tokens=sum(len(each.request.prompt.source_ids) for each in plan.admitted),
            encode_seconds=encoded - started if plan.admitted else None,
            step_seconds=seconds / steps,
        )
        self._channel.send(StepReport(progress.tokens, stats, progress.failed, progress.beams))

    def _announce(self, request_ids: list[int]) -> None:
        now = time.monotonic()
        self._channel.send(Admitted(request_ids, [now - self._submitted_at.pop(each) for each in request_ids]))

    def _decode(self, plan: Plan, groups: Sequence[Sequence[Row]]) -> tuple[list[Steps], int]:
        """Return each request's extensions, and the number of decoder steps that were run."""
        copies = [copy for each in plan.running for copy in each.sequence.copies()]
        # Neither a first token nor a request that waits for a slot is delayed by more than one step.
        multi_step = not (plan.admitted or self._scheduler.waiting)
        batch = step_batch(groups, copies, self._bos_id, multi_step=multi_step)
        scores = self._runner.decode(batch)
        return select_tokens(groups, batch, scores), len(scores.tokens)

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
