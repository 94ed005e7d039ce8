"""The engine's loop: take commands, step, report. One thread, and nothing else in the process."""

import logging
import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

from msgspec.structs import replace

from model.search import Extension
from service.engine.batching import source_batch, step_batch
from service.engine.choosing import choose
from service.engine.request import Cancel, Command, Report, StepReport, StepStats, Submit
from service.engine.runner import Runner
from service.engine.scheduler import Plan, Scheduler
from service.engine.writers import Row

logger = logging.getLogger(__name__)


class Channel(Protocol):
    """The engine's end of the line to the HTTP process."""

    def receive(self, *, wait: bool) -> list[Command] | None:
        """Commands that have arrived, at least one if `wait`; None when the other end is gone."""
        ...

    def send(self, report: Report) -> None: ...


class EngineLoop:
    """Runs until the channel closes."""

    def __init__(self, scheduler: Scheduler, runner: Runner, channel: Channel, bos_id: int) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._channel = channel
        self._bos_id = bos_id
        self._submitted_at: dict[int, float] = {}

    def run(self) -> None:
        while (commands := self._channel.receive(wait=not self._scheduler.has_work)) is not None:
            for command in commands:
                self._obey(command)
            if self._scheduler.has_work:
                self.step()
            elif commands:
                # Cancelled down to nothing: say so, or the gauges would show the last step for ever.
                self._channel.send(StepReport([], self._stats()))

    def step(self) -> None:
        """Schedule, run, choose, update: every running request goes on."""
        plan = self._scheduler.schedule()
        rows = [each.writer.rows() for each in plan.running]
        started = time.monotonic()
        queue_seconds = [started - self._submitted_at.pop(each.request_id) for each in plan.admitted]
        try:
            if plan.admitted:
                self._runner.prefill(source_batch(plan.admitted))
            encoded = time.monotonic()
            chosen = self._choose(plan, list(chain.from_iterable(rows)))
        except Exception:
            # Whatever a step dies of, out of memory or a bad index, is its own requests' end, not the engine's:
            # a request that killed its engine would be given to the next one, and the next.
            logger.exception("step failed", extra={"rows": sum(map(len, rows))})
            failed = self._scheduler.fail(plan)
            self._channel.send(StepReport([], self._stats(), failed))
            return
        extensions = [list(chain.from_iterable(islice(chosen, len(each)))) for each in rows]
        tokens = self._scheduler.update(plan, extensions)
        stats = replace(
            self._stats(),
            batch_rows=sum(map(len, rows)),
            source_tokens=sum(len(each.request.source_ids) for each in plan.admitted),
            encode_seconds=encoded - started if plan.admitted else None,
            step_seconds=time.monotonic() - encoded,
            queue_seconds=queue_seconds,
        )
        self._channel.send(StepReport(tokens, stats))

    def _choose(self, plan: Plan, rows: Sequence[Row]) -> Iterator[list[Extension]]:
        copies = [copy for each in plan.running for copy in each.writer.copies()]
        batch = step_batch(rows, copies, self._bos_id)
        return iter(choose(rows, batch, self._runner.decode(batch)))

    def _obey(self, command: Command) -> None:
        match command:
            case Submit(request_id, request, submitted_at):
                self._submitted_at[request_id] = submitted_at
                self._scheduler.add(request_id, request)
            case Cancel(request_id):
                self._submitted_at.pop(request_id, None)
                self._scheduler.cancel(request_id)

    def _stats(self) -> StepStats:
        scheduler = self._scheduler
        return StepStats(scheduler.running, scheduler.waiting, scheduler.slots_used)
