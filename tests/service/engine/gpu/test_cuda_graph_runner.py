"""The runner with buckets, step by step; tests/parity holds it to the oracle."""

import logging
import math

import pytest
import torch

from model.attention import padding_mask
from model.config import ModelConfig
from model.decode_step import NO_OUTPUTS, NO_PLAIN_ROWS, Queries
from model.slot_cache import SlotCache
from model.topk import NO_BEAMS, Beams
from service.engine.batching import ONE_STEP, Block, SourceBatch, StepBatch, StepScores, extensions_of
from service.engine.gpu.cuda_graph_runner import CudaGraphRunner
from service.engine.gpu.device import CapturedStep
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


def _runner(config: ModelConfig, device: torch.device) -> CudaGraphRunner:
    """Return a runner with the sources in its first slots."""
    runner = CudaGraphRunner(random_model(config).to(device), slots=8, max_length=128)
    _prefill(runner)
    return runner


def _prefill(runner: CudaGraphRunner, sources: list[list[int]] = SOURCES) -> None:
    lengths = [len(source) for source in sources]
    runner.prefill(
        SourceBatch(
            ids=torch.tensor([[token for source in sources for token in source]]),
            positions=torch.tensor([[position for length in lengths for position in range(length)]]),
            offsets=torch.tensor([0, *lengths]).cumsum(0),
            lengths=lengths,
            slots=list(range(len(sources))),
            required=[[]] * len(sources),
        )
    )


@pytest.mark.parametrize("lengths", [[5], [1, 40, 23], [128] * 8, [128, 1, *[128] * 6], [128] * 7 + [127, 3]])
def test_sources_are_encoded_each_as_if_it_were_alone(
    config: ModelConfig, device: torch.device, lengths: list[int]
) -> None:
    """Slots of other requests stay as they are."""
    config = config.model_copy(update={"max_positions": 128})
    model = random_model(config).to(device)
    runner = CudaGraphRunner(model, slots=10, max_length=128)
    generator = torch.Generator().manual_seed(0)
    earlier, sources = (
        [torch.randint(3, 96, (length,), generator=generator).tolist() for length in each]
        for each in ([9] * 10, lengths)
    )
    _prefill(runner, earlier)
    _prefill(runner, sources)
    buffers = runner._cache.buffers()
    for slot in range(10):
        ids = torch.tensor([[*sources, *earlier[len(sources) :]][slot]], device=device)
        mask = padding_mask(torch.tensor([ids.shape[1]], device=device), ids.shape[1])
        for layer, expected in enumerate(model.encode(ids, mask)):
            for name, each in zip(("source_keys", "source_values"), expected, strict=True):
                torch.testing.assert_close(buffers[name][layer, slot, :, : ids.shape[1]], each[0])


def _batch(tokens: list[int], position: int, block: Block = ONE_STEP, **outputs: list[int]) -> StepBatch:
    """Return a batch of the first slots; all rows are plain."""
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
        plain=NO_PLAIN_ROWS._replace(rooms=torch.full((rows,), 50)),
        block=block,
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
def test_a_block_has_the_steps_one_by_one(config: ModelConfig, device: torch.device, rows: int, before: int) -> None:
    """The result is the same where the steps need a larger bucket than the first of them."""
    expected = _one_by_one(_runner(config, device), rows, before + 5)
    runner = _runner(config, device)
    tokens = _one_by_one(runner, rows, before).tokens[-1].tolist() if before else [1] * rows
    block = runner.decode(_batch(tokens, before, Block(5, math.inf)))
    assert block.tokens.tolist() == expected.tokens[before:].tolist()
    assert block.counts.tolist() == [5] * rows
    torch.testing.assert_close(block.logprobs, expected.logprobs[before:])


def test_rows_end_within_a_block_and_the_others_go_on(config: ModelConfig, device: torch.device) -> None:
    tokens = _one_by_one(_runner(config, device), 3, 8).tokens
    end = tokens[3, 1].item()
    ending = _runner(config.model_copy(update={"eos_id": end}), device)
    rooms = torch.tensor([3, 50, 50])
    batch = _batch([1, 1, 1], 0, Block(8, math.inf))
    scores = ending.decode(batch._replace(plain=NO_PLAIN_ROWS._replace(rooms=rooms)))
    counts = [next((i + 1 for i, each in enumerate(row) if each == end), 8) for row in tokens.T.tolist()]
    counts[0] = min(counts[0], 3)
    assert scores.counts.tolist() == counts
    assert min(counts) < 8
    for row, count in enumerate(counts):
        assert scores.tokens[:count, row].tolist() == tokens[:count, row].tolist()


def test_a_row_that_has_ended_leaves_its_slot_alone(config: ModelConfig, device: torch.device) -> None:
    """The row may go on later: a token without room in one block is not written in the next place."""
    expected = _one_by_one(_runner(config, device), 2, 8).tokens
    runner = _runner(config, device)
    batch = _batch([1, 1], 0, Block(4, math.inf))
    first = runner.decode(batch._replace(plain=NO_PLAIN_ROWS._replace(rooms=torch.tensor([2, 50]))))
    assert first.counts.tolist() == [2, 4]
    queries = batch.queries._replace(tokens=first.tokens[[1, 3], [0, 1]], positions=torch.tensor([2, 4]))
    second = runner.decode(_batch([1, 1], 0, Block(4, math.inf))._replace(queries=queries))
    assert second.tokens[:, 0].tolist() == expected[2:6, 0].tolist()
    assert second.tokens[:, 1].tolist() == expected[4:8, 1].tolist()


def test_no_further_step_without_time(config: ModelConfig, device: torch.device) -> None:
    assert len(_runner(config, device).decode(_batch([1], 0, Block(5, 0.0))).tokens) == 1


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
    batch = _batch([1, 1, 1], 70, alignment=[0])
    expected = _runner(config, device).decode(batch)
    runner = _runner(config, device)
    monkeypatch.setattr(runner._executor, "capture", _out_of_memory)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            scores = runner.decode(batch)
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
            queries = Queries(four[0], far, slots, slots % 3, four[1])
            batch = batch._replace(queries=queries, plain=NO_PLAIN_ROWS._replace(rooms=torch.ones(4).long()))
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


def test_a_beam_has_its_best_extensions(config: ModelConfig, device: torch.device) -> None:
    """Between a prompt's row and a plain one; the other beam is at its start."""
    tokens = [1, 40, 50, 60, 7]
    queries = Queries(
        torch.tensor(tokens), torch.tensor([0, 1, 1, 0, 0]), torch.arange(5), torch.tensor([0, 1, 1, 2, 0]),
        torch.tensor([4, 3, 3, 6, 4]),
    )  # fmt: skip
    plain = NO_PLAIN_ROWS._replace(rooms=torch.tensor([5]))
    totals = torch.tensor([0.0, -1.5, -1.0, 0.0, 0.0])
    batch = StepBatch(
        queries, [], NO_OUTPUTS, Beams(torch.tensor([[1, 2, 2], [3, 1, 3]]), totals), plain, Block(5, 9.0)
    )
    all_rows = batch._replace(outputs=NO_OUTPUTS._replace(logits=list(range(5))), beams=NO_BEAMS)
    logits = _runner(config, device).decode(all_rows._replace(block=ONE_STEP)).logits
    expected = extensions_of(batch, logits[batch.beam_rows])
    runner = _runner(config, device)
    scores = runner.decode(batch)
    assert scores.tokens.tolist() == logits.argmax(-1)[None].tolist()
    assert scores.extensions is not None
    assert expected is not None
    assert scores.extensions.parents.tolist() == expected.parents.tolist()
    assert scores.extensions.tokens.tolist() == expected.tokens.tolist()
    torch.testing.assert_close(scores.extensions.logprobs, expected.logprobs)
    torch.testing.assert_close(scores.extensions.totals, expected.totals)


def _step(tokens: list[int], position: int, copies: list[tuple[int, int, int]]) -> StepBatch:
    """Return a step of two rows with the first source, after `copies` of their slots."""
    batch = _batch(tokens, position)
    ours = {"source_slots": torch.zeros(2).long(), "source_lengths": torch.tensor([len(SOURCES[0])] * 2)}
    return batch._replace(queries=batch.queries._replace(**ours), copies=copies)


def test_rows_that_come_of_one_row_go_on_from_what_it_has_written(config: ModelConfig, device: torch.device) -> None:
    runner = _runner(config, device)
    runner.decode(_step([1, 1], 0, []))
    runner.decode(_step([40, 50], 1, []))
    runner.decode(_step([42, 41], 2, [(0, 1, 2)]))
    scores = runner.decode(_step([43, 44], 3, [(1, 0, 3)]))
    for row, last in enumerate((43, 44)):
        alone = _runner(config, device)
        expected = [alone.decode(_batch([token], place)) for place, token in enumerate((1, 40, 41, last))][-1]
        assert scores.tokens[0, row] == expected.tokens[0, 0]
        torch.testing.assert_close(scores.logprobs[0, row], expected.logprobs[0, 0])
    # The slots' next requests find nothing of this.
    afresh = runner.decode(_batch([1, 1], 0))
    torch.testing.assert_close(afresh.logprobs, _runner(config, device).decode(_batch([1, 1], 0)).logprobs)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.AcceleratorError("an illegal memory access was encountered"), DeviceLost),
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
    ],
)
def test_a_lost_device_is_distinguished_from_a_failed_step(
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
    monkeypatch.setattr(SlotCache, "write_source_tokens", fail)
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
