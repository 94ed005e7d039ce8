"""The loop with a scripted runner: no model, no process."""

import math
from typing import Any

import pytest
import torch

from service.engine.batching import ONE_STEP, Block, SourceBatch, StepBatch, StepScores, extensions_of
from service.engine.generation_request import Beam, Sampling
from service.engine.loop import LONG_BLOCK, SHORT_BLOCK, EngineLoop
from service.engine.messages import Admitted, Cancel, Command, Report, StepReport, Submit, TokenReport
from service.engine.runner import DeviceLost
from service.engine.scheduler import Scheduler
from tests.generation_requests import all_tokens, generation_request

EOS = 2


class ScriptedRunner:
    """Writes 5, 6, 7, ... by position, then eos after as many tokens as the source has."""

    def __init__(self, fail_at_call: int | None = None, error: Exception | None = None) -> None:
        self.encoded: list[int] = []
        self._lengths: dict[int, int] = {}
        self._fail_at_call = fail_at_call
        self._calls = 0
        self._error = error

    def prefill(self, sources: SourceBatch) -> None:
        self.encoded += sources.lengths
        self._lengths |= zip(sources.slots, sources.lengths, strict=True)

    def decode(self, batch: StepBatch) -> StepScores:
        self._calls += 1
        if self._calls == self._fail_at_call:
            raise self._error or RuntimeError("out of memory")
        rows = zip(batch.queries.source_slots.tolist(), batch.queries.positions.tolist(), strict=True)
        tokens = [EOS if position >= self._lengths[slot] - 1 else 5 + position for slot, position in rows]
        logits = torch.full((len(tokens), 60), -10.0)
        logits[torch.arange(len(tokens)), torch.tensor(tokens)] = 10.0
        logprobs, extensions = torch.zeros(1, len(tokens)), extensions_of(batch, logits[batch.beam_rows])
        counts = torch.ones_like(batch.plain.rooms)
        own = logits[batch.outputs.logits]
        return StepScores(torch.tensor([tokens]), logprobs, own, extensions=extensions, counts=counts)


class BlockRunner(ScriptedRunner):
    """Takes all the steps of a block until every row has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []

    def decode(self, batch: StepBatch) -> StepScores:
        self.blocks.append(batch.block)
        steps = [super().decode(batch)]
        counts = torch.zeros_like(batch.plain.rooms)
        goes_on = torch.ones_like(counts, dtype=torch.bool)
        while True:
            counts += goes_on
            goes_on &= (steps[-1].tokens[0, batch.first_plain :] != EOS) & (counts < batch.plain.rooms)
            if len(steps) == batch.block.steps or not goes_on.any():
                break
            positions = batch.queries.positions + len(steps)
            steps.append(super().decode(batch._replace(queries=batch.queries._replace(positions=positions))))
        tokens, logprobs, logits, *_ = zip(*steps, strict=True)
        return StepScores(torch.cat(tokens), torch.cat(logprobs), logits[-1], counts=counts)


class ScriptedChannel:
    """Gives out its commands a batch at a time, then closes once the engine has nothing to do."""

    def __init__(self, *batches: list[Command]) -> None:
        self._batches = list(batches)
        self.reports: list[StepReport] = []
        self.admitted: list[int] = []

    def receive(self, *, wait: bool) -> list[Command] | None:
        if self._batches:
            return self._batches.pop(0)
        return None if wait else []

    def send(self, report: Report) -> None:
        if isinstance(report, Admitted):
            self.admitted += report.request_ids
            return
        assert isinstance(report, StepReport)
        self.reports.append(report)

    def tokens(self, request_id: int) -> list[int]:
        return [each.token_id for each in self.all_tokens() if each.request_id == request_id]

    def all_tokens(self) -> list[TokenReport]:
        return [token for report in self.reports for token in all_tokens(report)]


def _submit(request_id: int, length: int, **changes: Any) -> Submit:
    return Submit(request_id, generation_request([9] * length + [EOS], 50, **changes), submitted_at=0.0)


def _run(runner: ScriptedRunner, *batches: list[Command], slots: int = 4) -> ScriptedChannel:
    channel = ScriptedChannel(*batches)
    EngineLoop(_scheduler(slots), runner, channel).run()
    return channel


def _scheduler(slots: int) -> Scheduler:
    return Scheduler(slots=slots, max_prefill=8, bos_id=1, eos_id=EOS)


def test_requests_join_and_leave_a_running_batch() -> None:
    runner = ScriptedRunner()
    channel = _run(runner, [_submit(1, 4)], [], [_submit(2, 1)])
    assert channel.tokens(1) == [5, 6, 7, 8, EOS]
    assert channel.tokens(2) == [5, EOS]
    assert [report.stats.batch_rows for report in channel.reports] == [1, 1, 2, 2, 1]
    assert runner.encoded == [5, 2], "each source is encoded once"


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), IndexError("position 300")])
def test_a_failed_step_fails_its_own_requests_and_the_loop_lives(error: Exception) -> None:
    channel = _run(ScriptedRunner(fail_at_call=2, error=error), [_submit(1, 3), _submit(2, 3)], [], [_submit(3, 1)])
    assert [report.failed for report in channel.reports if report.failed] == [[1, 2]]
    assert channel.tokens(3) == [5, EOS]
    assert channel.reports[-1].stats.slots_used == 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sampling": Sampling(temperature=1.0)},
        {"sampling": Sampling(temperature=1.0, top_k=3)},
        {"beam": Beam(2)},
        {"forced_ids": [5]},
        {"candidates": 2},
    ],
)
def test_a_request_whose_logits_are_not_numbers_ends_alone(options: dict[str, Any]) -> None:
    class Broken(ScriptedRunner):
        def decode(self, batch: StepBatch) -> StepScores:
            scores = super().decode(batch)
            own = batch.queries.source_slots == 0
            broken = extensions_of(batch, torch.full((len(batch.beam_rows), 60), math.nan))
            return scores._replace(
                logprobs=scores.logprobs.masked_fill(own, math.nan),
                logits=scores.logits.masked_fill(own[batch.outputs.logits, None], math.nan),
                extensions=broken,
            )

    broken = Submit(1, generation_request([9, 9, EOS], 50, **options), submitted_at=0.0)
    channel = _run(Broken(), [broken, _submit(2, 3)])
    assert [report.failed for report in channel.reports if report.failed] == [[1]]
    assert channel.tokens(1) == []
    assert channel.tokens(2) == [5, 6, 7, EOS]


def test_a_lost_device_fails_no_request_but_ends_the_engine() -> None:
    channel = ScriptedChannel([_submit(1, 3)])
    runner = ScriptedRunner(fail_at_call=2, error=DeviceLost())
    with pytest.raises(DeviceLost):
        EngineLoop(_scheduler(4), runner, channel).run()
    assert channel.tokens(1) == [5]
    assert not any(report.failed for report in channel.reports)


def test_cancelling_the_last_request_reports_an_empty_engine() -> None:
    channel = _run(ScriptedRunner(), [_submit(1, 30)], [Cancel(1)])
    assert [report.stats.slots_used for report in channel.reports] == [1, 0]


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    channel = ScriptedChannel([_submit(1, 3), _submit(2, 3), Cancel(2)])
    loop = EngineLoop(_scheduler(1), ScriptedRunner(), channel)
    loop.run()
    assert not loop._submitted_at
    assert channel.tokens(2) == []


def test_admissions_are_reported_before_the_step_that_may_kill_the_engine() -> None:
    class Fatal(ScriptedRunner):
        def prefill(self, sources: SourceBatch) -> None:
            raise SystemExit

    channel = ScriptedChannel([_submit(1, 3), _submit(2, 5)])
    with pytest.raises(SystemExit):
        EngineLoop(_scheduler(1), Fatal(), channel).run()
    assert (channel.admitted, channel.reports) == ([1], [])


def test_statistics_of_a_step() -> None:
    beam = Submit(1, generation_request([9, 9, EOS], 50, beam=Beam(3)), submitted_at=0.0)
    channel = _run(ScriptedRunner(), [beam, _submit(2, 5)])
    first, second, *_ = [report.stats for report in channel.reports]
    assert [(each.slots_used, each.batch_rows, each.source_tokens) for each in (first, second)] == [
        (4, 2, 9),
        (4, 4, 0),
    ]
    assert first.encode_seconds is not None
    assert second.encode_seconds is None


def test_a_block_is_one_report_and_rows_end_within_it() -> None:
    runner = BlockRunner()
    channel = _run(runner, [_submit(1, 45), _submit(2, 6)])
    assert [report.block.tokens for report in channel.reports] == [8, 35, 10], "the first is short"
    assert channel.tokens(1) == [*range(5, 50), EOS]
    assert channel.tokens(2) == [*range(5, 11), EOS]
    assert [each.finish_reason for each in channel.all_tokens() if each.token_id == EOS] == ["stop", "stop"]
    assert [report.stats.slots_used for report in channel.reports] == [2, 1, 0]
    assert [report.stats.steps for report in channel.reports] == [4, 32, 10]
    assert [report.stats.batch_rows for report in channel.reports] == [2, 2, 1]


def test_a_request_ends_within_a_block_at_its_limit() -> None:
    cut = Submit(1, generation_request([9] * 30 + [EOS], 7), submitted_at=0.0)
    channel = _run(BlockRunner(), [cut, _submit(2, 12)])
    assert channel.tokens(1) == [*range(5, 12)]
    assert [each.finish_reason for each in channel.all_tokens() if each.request_id == 1] == [None] * 6 + ["length"]
    assert channel.tokens(2) == [*range(5, 17), EOS]


def test_blocks_are_short_while_somebody_waits_and_single_steps_while_the_encoder_is_behind() -> None:
    runner = BlockRunner()
    _run(runner, [_submit(number, 30) for number in range(10)], slots=9)
    assert runner.blocks[:3] == [ONE_STEP, SHORT_BLOCK, SHORT_BLOCK], "a source, then a slot is waited for"
    assert runner.blocks[-1] == LONG_BLOCK


def test_what_has_to_be_looked_at_makes_all_blocks_single_steps() -> None:
    runner = BlockRunner()
    channel = _run(runner, [_submit(1, 45), _submit(2, 3, candidates=2)])
    assert [block.steps for block in runner.blocks] == [1, 1, 1, 1, 32, 32]
    assert channel.tokens(1) == [*range(5, 50), EOS]
    assert channel.tokens(2) == [5, 6, 7, EOS]
