"""The runner with buckets, step by step; tests/parity holds it to the oracle."""

import logging
import math
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model.cache import SlotCache
from model.config import ModelConfig
from model.decode_step import NO_OUTPUTS, Queries
from model.decoding import greedy_decode
from service.engine.batching import SourceBatch, StepBatch, StepScores
from service.engine.cuda_graph_runner import CudaGraphRunner
from service.engine.device import CapturedStep, PlainExecutor
from service.engine.runner import DeviceLost
from tests.conftest import random_model
from tests.parity.engine import self_attention_of

SOURCES = [[30, 40, 50, 2], [60, 61, 2], [70, 71, 72, 73, 74, 2]]
NEVER = 96
"""An end of sentence that the random model does not write here."""


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(
        vocab_size=97, d_model=32, ffn_dim=64, num_heads=4, encoder_layers=2, decoder_layers=2, eos_id=NEVER
    )


def _runner(config: ModelConfig, device: torch.device, ahead_seconds: float = math.inf) -> CudaGraphRunner:
    """Return a runner with the sources in its first slots."""
    runner = CudaGraphRunner(random_model(config).to(device), slots=8, max_length=128, ahead_seconds=ahead_seconds)
    _prefill(runner)
    return runner


def _prefill(runner: CudaGraphRunner) -> None:
    lengths = [len(source) for source in SOURCES]
    runner.prefill(
        SourceBatch(
            ids=torch.tensor([[token for source in SOURCES for token in source]]),
            positions=torch.tensor([[position for length in lengths for position in range(length)]]),
            offsets=torch.tensor([0, *lengths]).cumsum(0),
            lengths=lengths,
            slots=[0, 1, 2],
        )
    )


def _batch(tokens: list[int], position: int, ahead: int = 0, **outputs: list[int]) -> StepBatch:
    """Return a batch of the first slots."""
    rows = len(tokens)
    return StepBatch(
        Queries(
            torch.tensor(tokens),
            torch.full((rows,), position),
            torch.arange(rows),
            torch.arange(rows),
            torch.tensor([len(source) for source in SOURCES[:rows]]),
        ),
        copies=[],
        outputs=NO_OUTPUTS._replace(**outputs),
        steps_ahead=ahead,
    )


def _one_by_one(runner: CudaGraphRunner, rows: int, steps: int) -> StepScores:
    tokens, given = [1] * rows, []
    for position in range(steps):
        given.append(runner.decode(_batch(tokens, position)))
        tokens = given[-1].tokens[0].tolist()
    return StepScores(
        torch.cat([each.tokens for each in given]), torch.cat([each.logprobs for each in given]), given[-1].logits
    )


@pytest.mark.parametrize(("rows", "before"), [(1, 0), (3, 0), (1, 30)])
def test_steps_ahead_are_the_steps_one_by_one(
    config: ModelConfig, device: torch.device, rows: int, before: int
) -> None:
    """The result is the same where the steps need a larger bucket than the first of them."""
    expected = _one_by_one(_runner(config, device), rows, before + 5)
    runner = _runner(config, device)
    tokens = _one_by_one(runner, rows, before).tokens[-1].tolist() if before else [1] * rows
    ahead = runner.decode(_batch(tokens, before, ahead=4))
    assert ahead.tokens.tolist() == expected.tokens[before:].tolist()
    torch.testing.assert_close(ahead.logprobs, expected.logprobs[before:])


def test_nothing_comes_behind_an_end_and_what_was_too_much_is_forgotten(
    config: ModelConfig, device: torch.device
) -> None:
    tokens = _one_by_one(_runner(config, device), 2, 8).tokens
    end = tokens[3, 1].item()
    first = next(number for number, step in enumerate(tokens.tolist()) if end in step)
    ending = _runner(config.model_copy(update={"eos_id": end}), device)
    scores = ending.decode(_batch([1, 1], 0, ahead=7))
    assert scores.tokens.tolist() == tokens[: first + 1].tolist()
    # The other row goes on as if no step had run too far.
    going_on = ending.decode(_batch(tokens[first].tolist(), first + 1))
    assert going_on.tokens[0, 0].item() == tokens[first + 1, 0].item()


def test_no_step_ahead_without_time_or_with_many_rows(config: ModelConfig, device: torch.device) -> None:
    in_a_hurry = _runner(config, device, ahead_seconds=0.0)
    assert len(in_a_hurry.decode(_batch([1], 0, ahead=4)).tokens) == 1
    assert len(_runner(config, device).decode(_batch([1, 1, 1], 0, ahead=60)).tokens) < 10


def test_a_ready_runner_has_what_most_requests_need(
    config: ModelConfig, device: torch.device, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlainExecutor, "records", True)
    with caplog.at_level(logging.INFO):
        runner = _runner(config, device)
        ready = len(caplog.records)
        for rows in (1, 2, 3):
            for position in (0, 5, 62):
                runner.decode(_batch([1] * rows, position))
        assert len(caplog.records) == ready == 1
        runner.decode(_batch([1, 1, 1], 70))
        runner.decode(_batch([1, 1, 1], 3, alignment=[2]))
        runner.decode(_batch([1, 1, 1], 3, self_attention=[0]))
        runner.decode(_batch([1, 1, 1], 71))
    [wide, aligned, looking] = caplog.records[ready:]
    assert (wide.__dict__["rows"], wide.__dict__["width"], wide.__dict__["with_alignment"]) == (4, 128, False)
    assert (aligned.__dict__["width"], aligned.__dict__["with_alignment"]) == (32, True)
    assert (looking.__dict__["with_alignment"], looking.__dict__["with_self_attention"]) == (False, True)


def test_a_device_without_graphs_says_so(config: ModelConfig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        runner = _runner(config, torch.device("cpu"))
        runner.decode(_batch([1, 1, 1], 70))
    assert [record.message for record in caplog.records] == ["decode steps of fixed shapes, without graphs"]


def test_steps_of_all_sizes_share_the_memory_of_their_logits(config: ModelConfig, device: torch.device) -> None:
    runner = _runner(config, device)
    memory = {buffers.logits.data_ptr() for buffers in runner._buffers.values()}
    assert len(runner._buffers) > 2
    assert len(memory) == 1


class _Storages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The storages of tensors of some shape, apart from their first dimension."""

    def __init__(self, *shape: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[int] = set()
        self._shape = shape

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = function(*args, **kwargs or {})
        if isinstance(made, torch.Tensor) and made.shape[1:] == self._shape:
            self.seen.add(made.untyped_storage().data_ptr())
        return made


def test_self_attention_takes_memory_once_when_somebody_asks(config: ModelConfig, device: torch.device) -> None:
    with _Storages(config.decoder_layers, 128) as storages:
        runner = _runner(config, device)
        runner.decode(_batch([1, 1, 1], 0, alignment=[0]))
        assert not storages.seen
        for tokens in ([1], [1, 1, 1]):
            runner.decode(_batch(tokens, 0, self_attention=[0]))
            runner.decode(_batch(tokens, 1))
        assert len(storages.seen) == 1


def test_what_is_captured_late_disturbs_nobody(config: ModelConfig, device: torch.device) -> None:
    expected = _one_by_one(_runner(config, device), 3, 6)
    runner = _runner(config, device)
    tokens = [1, 1, 1]
    for position in range(6):
        scores = runner.decode(_batch(tokens, position, alignment=[1] if position == 3 else []))
        tokens = scores.tokens[0].tolist()
        assert tokens == expected.tokens[position].tolist()
        torch.testing.assert_close(scores.logprobs[0], expected.logprobs[position])


def test_without_memory_for_a_graph_it_does_without(
    config: ModelConfig, device: torch.device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = _runner(config, device, ahead_seconds=0).decode(_batch([1, 1, 1], 70))
    runner = _runner(config, device, ahead_seconds=0)
    monkeypatch.setattr(runner._executor, "capture", _out_of_memory)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            scores = runner.decode(_batch([1, 1, 1], 70))
            assert scores.tokens.tolist() == expected.tokens.tolist()
    assert [record.getMessage() for record in caplog.records] == ["no memory left for a graph of this size"]


def _out_of_memory(step: object) -> CapturedStep:
    raise torch.OutOfMemoryError


@pytest.mark.parametrize("width", [32, 128])
def test_how_wide_attention_reads_changes_nothing(config: ModelConfig, device: torch.device, width: int) -> None:
    """Values after a row's own positions, left by other requests, have no weight."""
    expected = _one_by_one(_runner(config, device), 3, 6)
    runner = _runner(config, device)
    for position in range(100):
        runner.decode(_batch([40, 50, 60], position))
    tokens = [1, 1, 1]
    for position in range(6):
        batch = _batch(tokens, position)
        if width == 128:
            # A fourth row far beyond the others makes the step wide.
            slots, far = torch.arange(4), torch.tensor([position] * 3 + [100])
            four = [torch.cat([each, each[:1]]) for each in (batch.queries.tokens, batch.queries.source_lengths)]
            batch = batch._replace(queries=Queries(four[0], far, slots, slots % 3, four[1]))
        scores = runner.decode(batch)
        tokens = scores.tokens[0, :3].tolist()
        assert tokens == expected.tokens[position].tolist()
        torch.testing.assert_close(scores.logprobs[0, :3], expected.logprobs[position])


def test_logits_are_of_the_rows_that_want_them(config: ModelConfig, device: torch.device) -> None:
    runner = _runner(config, device)
    scores = runner.decode(_batch([1, 1, 1], 0, logits=[0, 2]))
    assert scores.logits.shape == (2, config.vocab_size)
    assert scores.logits.device.type == "cpu"
    assert scores.logits.argmax(-1).tolist() == scores.tokens[0, [0, 2]].tolist()
    kept = scores.logits.clone()
    runner.decode(_batch([5, 5, 5], 1, logits=[0]))
    assert torch.equal(scores.logits, kept)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.AcceleratorError("an illegal memory access was encountered"), DeviceLost),
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
    ],
)
def test_a_lost_device_is_told_from_a_failed_step(
    config: ModelConfig,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    expected: type[Exception],
) -> None:
    def fail(*_: object) -> None:
        raise error

    runner = _runner(config, device)
    monkeypatch.setattr(SlotCache, "copy_target_at_once", fail)
    with pytest.raises(expected):
        runner.decode(_batch([1, 1, 1], 0)._replace(copies=[(0, 3, 1)]))
    monkeypatch.setattr(SlotCache, "write_padded_source", fail)
    with pytest.raises(expected):
        _prefill(runner)


def test_self_attention_has_the_biases_of_relative_positions(config: ModelConfig, device: torch.device) -> None:
    config = config.model_copy(update={"positions": "relative", "norm": "rms", "biases": False})
    runner = _runner(config, device)
    ids = [1, 40, 50, 60]
    found = [runner.decode(_batch([token] * 3, place, self_attention=[1])) for place, token in enumerate(ids)]
    expected = self_attention_of(random_model(config), SOURCES[1], [*ids[1:], 70])
    for place, scores in enumerate(found):
        assert scores.self_attention is not None
        torch.testing.assert_close(scores.self_attention[0], expected[:, place, : place + 1], rtol=1e-4, atol=1e-5)


def test_relative_positions(config: ModelConfig, device: torch.device) -> None:
    """Biases of attention are added to the masks that this runner has."""
    config = config.model_copy(update={"positions": "relative", "norm": "rms", "biases": False})
    scores = _one_by_one(_runner(config, device), 3, 8)
    assert scores.tokens.T.tolist() == greedy_decode(random_model(config), SOURCES, 8)
