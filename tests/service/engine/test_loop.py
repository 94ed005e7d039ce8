"""The loop with a scripted runner: no model, no process."""

import math
from typing import Any

import pytest
import torch

from model.beam_search import Extension
from service.engine.batching import SourceBatch, StepBatch, StepScores, extensions_of
from service.engine.loop import EngineLoop
from service.engine.messages import (
    Admitted,
    Beam,
    Cancel,
    Command,
    GenerationRequest,
    Report,
    Sampling,
    StepReport,
    Submit,
)
from service.engine.runner import DeviceLost
from service.engine.scheduler import Scheduler
from service.engine.sequences.sequence import StepResult
from service.engine.sequences.single import SingleSequence
from tests.generation_requests import generation_request

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
        logits = torch.full((len(tokens), 20), -10.0)
        logits[torch.arange(len(tokens)), torch.tensor(tokens)] = 10.0
        logprobs, extensions = torch.zeros(1, len(tokens)), extensions_of(batch, logits[batch.beam_rows])
        return StepScores(torch.tensor([tokens]), logprobs, logits[batch.outputs.logits], extensions=extensions)


class AheadRunner(ScriptedRunner):
    """Takes all the steps that it may, as long as nothing has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed: list[int] = []

    def decode(self, batch: StepBatch) -> StepScores:
        self.allowed.append(batch.steps_ahead)
        steps = [super().decode(batch)]
        while len(steps) <= batch.steps_ahead and not (steps[-1].tokens == EOS).any():
            positions = batch.queries.positions + len(steps)
            steps.append(super().decode(batch._replace(queries=batch.queries._replace(positions=positions))))
        tokens, logprobs, logits, *_ = zip(*steps, strict=True)
        return StepScores(torch.cat(tokens), torch.cat(logprobs), logits[-1])


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
        return [t.token_id for report in self.reports for t in report.tokens if t.request_id == request_id]


def _submit(request_id: int, length: int) -> Submit:
    return Submit(request_id, generation_request([9] * length + [EOS], 50), submitted_at=0.0)


def _run(runner: ScriptedRunner, *batches: list[Command], slots: int = 4) -> ScriptedChannel:
    channel = ScriptedChannel(*batches)
    EngineLoop(Scheduler(slots=slots, max_prefill=8, eos_id=EOS), runner, channel, bos_id=1).run()
    return channel


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


def test_a_request_whose_tokens_cannot_be_taken_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine lives, the others go on, and the slot is free."""
    take = SingleSequence.advance

    def fail_at_the_third(self: SingleSequence, extensions: list[Extension]) -> StepResult:
        if extensions[0].choice.token == 7 and len(self._request.prompt.source_ids) == 5:
            raise IndexError("a bug of ours")
        return take(self, extensions)

    monkeypatch.setattr(SingleSequence, "advance", fail_at_the_third)
    channel = _run(ScriptedRunner(), [_submit(1, 4), _submit(2, 5)], [], [], [_submit(3, 3)], slots=2)
    assert [report.failed for report in channel.reports if report.failed] == [[1]]
    assert channel.tokens(1) == [5, 6]
    assert channel.tokens(2) == [5, 6, 7, 8, 9, EOS]
    assert channel.tokens(3) == [5, 6, 7, EOS]


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
            broken = extensions_of(batch, torch.full((len(batch.beam_rows), 20), math.nan))
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
        EngineLoop(Scheduler(slots=4, max_prefill=8, eos_id=EOS), runner, channel, bos_id=1).run()
    assert channel.tokens(1) == [5]
    assert not any(report.failed for report in channel.reports)


def test_cancelling_the_last_request_reports_an_empty_engine() -> None:
    channel = _run(ScriptedRunner(), [_submit(1, 30)], [Cancel(1)])
    assert [report.stats.slots_used for report in channel.reports] == [1, 0]


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    channel = ScriptedChannel([_submit(1, 3), _submit(2, 3), Cancel(2)])
    loop = EngineLoop(Scheduler(slots=1, max_prefill=8, eos_id=EOS), ScriptedRunner(), channel, bos_id=1)
    loop.run()
    assert not loop._submitted_at
    assert channel.tokens(2) == []


def test_admissions_are_reported_before_the_step_that_may_kill_the_engine() -> None:
    class Fatal(ScriptedRunner):
        def prefill(self, sources: SourceBatch) -> None:
            raise SystemExit

    channel = ScriptedChannel([_submit(1, 3), _submit(2, 5)])
    with pytest.raises(SystemExit):
        EngineLoop(Scheduler(slots=1, max_prefill=8, eos_id=EOS), Fatal(), channel, bos_id=1).run()
    assert (channel.admitted, channel.reports) == ([1], [])


def test_statistics_of_a_step() -> None:
    channel = _run(ScriptedRunner(), [_submit(1, 3), _submit(2, 5)], slots=1)
    first = channel.reports[0].stats
    assert (first.batch_rows, first.slots_used, first.source_tokens) == (1, 1, 4)
    assert first.encode_seconds is not None
    assert channel.reports[1].stats.encode_seconds is None


def test_statistics_of_a_beam() -> None:
    beam = Submit(1, generation_request([9, 9, EOS], 50, beam=Beam(3)), submitted_at=0.0)
    channel = _run(ScriptedRunner(), [beam, _submit(2, 5)])
    stats = [report.stats for report in channel.reports]
    assert [(each.slots_used, each.batch_rows) for each in stats[:2]] == [(4, 2), (4, 4)]


def test_steps_ahead_are_reported_together() -> None:
    runner = AheadRunner()
    channel = _run(runner, [_submit(1, 4), _submit(2, 2)])
    assert [len(report.tokens) for report in channel.reports] == [2, 4, 2], "the first, until one has ended, the rest"
    assert channel.tokens(1) == [5, 6, 7, 8, EOS]
    assert channel.tokens(2) == [5, 6, EOS]
    assert [token.finish_reason for token in channel.reports[2].tokens] == [None, "stop"]
    assert runner.allowed == [0, 48, 46]


def test_nobody_runs_ahead_while_somebody_waits() -> None:
    runner = AheadRunner()
    channel = _run(runner, [_submit(1, 3), _submit(2, 3)], slots=1)
    assert runner.allowed == [0, 0, 0, 0, 0, 48]
    assert channel.tokens(1) == channel.tokens(2) == [5, 6, 7, EOS]


@pytest.mark.parametrize(
    "other",
    [
        generation_request([9, EOS], 50, Sampling(temperature=1.0)),
        generation_request([9, EOS], 50, self_attention=True),
    ],
)
def test_only_what_needs_no_choice_and_is_not_looked_at_runs_ahead(other: GenerationRequest) -> None:
    runner = AheadRunner()
    _run(runner, [_submit(1, 2), Submit(2, other, submitted_at=0.0)])
    assert runner.allowed == [0, 0, 47]
