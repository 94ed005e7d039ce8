"""Properties of the whole model: no look-ahead, no trace of padding, and incremental = full forward."""

import pytest
import torch
from torch import Tensor

from model.attention import padding_mask, segment_mask
from model.config import DecoderMemory, ModelConfig, NormOrder
from model.decode_step import Queries
from model.slot_cache import SlotCache
from model.slot_decoder import Width, decode
from model.transformer import Rows, Transformer
from tests.conftest import random_model


@pytest.fixture(params=["self_attention", "ssru"])
def config(request: pytest.FixtureRequest, config: ModelConfig) -> ModelConfig:
    memory: DecoderMemory = request.param
    return config.model_copy(update={"decoder_memory": memory})


def _ids(rows: int, length: int, device: torch.device, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, 97, (rows, length), generator=generator).to(device)


def test_a_future_token_changes_no_earlier_output(model: Transformer, device: torch.device) -> None:
    source, target = _ids(2, 6, device), _ids(2, 8, device, seed=2)
    before = model(source, target)
    changed = target.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 90 + 3
    after = model(source, changed)
    # Position 5 is read as input at 6: outputs 0..5 must not know of it, later ones must.
    torch.testing.assert_close(after[:, :6], before[:, :6], rtol=0, atol=0)
    assert (after[:, 6:] - before[:, 6:]).abs().max() > 1e-3


def test_padding_changes_no_real_output(model: Transformer, device: torch.device) -> None:
    source, target = _ids(1, 5, device), _ids(1, 4, device, seed=2)
    pad = torch.zeros(1, 3, dtype=torch.long, device=device)
    alone = model(source, target)
    padded = model(torch.cat([source, pad], 1), torch.cat([target, pad], 1))
    torch.testing.assert_close(padded[:, :4], alone)


def test_a_source_of_padding_alone_gives_no_nan(model: Transformer, device: torch.device) -> None:
    logits = model(torch.zeros(1, 4, dtype=torch.long, device=device), _ids(1, 3, device))
    assert logits.isfinite().all()


def _packed(sources: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids and positions, `[1, tokens]`, of sources one after the other, and the mask that tells them apart."""
    device = sources[0].device
    numbers = torch.cat([torch.full_like(source, number) for number, source in enumerate(sources)])[None]
    positions = torch.cat([torch.arange(len(source), device=device) for source in sources])
    return torch.cat(sources)[None], positions[None], segment_mask(numbers, numbers)


def _cached(model: Transformer, config: ModelConfig, sources: list[Tensor], slots: list[int]) -> SlotCache:
    """A cache of four slots with these sources in it; what an earlier request left there must not matter."""
    cache = SlotCache(config, slots=4, max_source_length=9, max_target_length=9, device=sources[0].device)
    for buffer in cache.buffers().values():
        buffer.normal_()
    packed = _packed(sources)
    own = torch.tensor([slot for slot, source in zip(slots, sources, strict=True) for _ in source])
    cache.write_source_tokens(own.to(packed[1].device), packed[1][0], model.encode_segments(*packed))
    return cache


def test_packed_sources_are_encoded_as_padded_ones(model: Transformer, config: ModelConfig) -> None:
    source = _ids(3, 7, model.embedding.weight.device)
    lengths = [7, 1, 4]
    with torch.inference_mode():
        padded = model.encode(source, padding_mask(torch.tensor(lengths, device=source.device), 7))
        packed = model.encode_segments(*_packed([row[:length] for row, length in zip(source, lengths, strict=True)]))
    for ours, theirs in zip(packed, padded, strict=True):
        for one_behind_the_other, batch in zip(ours, theirs, strict=True):
            for row, piece in enumerate(torch.split(one_behind_the_other[0], lengths, dim=1)):
                torch.testing.assert_close(piece, batch[row, :, : lengths[row]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_step_at_a_time_equals_the_full_forward_pass(
    config: ModelConfig, order: NormOrder, device: torch.device
) -> None:
    """Rows of different age and length in one step, each with its own source, and slots in any order."""
    model = random_model(config.model_copy(update={"norm_order": order})).to(device)
    source, target = _ids(3, 7, device), _ids(3, 9, device, seed=2)
    lengths, slots = [7, 2, 5], [2, 0, 3]
    sources = [row[:length] for row, length in zip(source, lengths, strict=True)]
    padded = source.masked_fill(
        torch.arange(7, device=device) >= torch.tensor(lengths, device=device)[:, None], config.pad_id
    )
    started = [0, 3, 5]  # the step in which each row joins
    with torch.inference_mode():
        full, inputs = model(padded, target), model.shift_right(target)
        cache = _cached(model, config, sources, slots)
        for step in range(9 + 5):
            rows = [row for row in range(3) if 0 <= step - started[row] < 9]
            positions, in_slots, own_lengths = (
                torch.tensor(each, device=device)
                for each in zip(*((step - started[row], slots[row], lengths[row]) for row in rows), strict=True)
            )
            tokens = torch.stack([inputs[row, step - started[row]] for row in rows])
            queries = Queries(tokens, positions, in_slots, in_slots, own_lengths)
            logits = decode(model, cache, queries, Width(7, 9))
            for row, result in zip(rows, logits, strict=True):
                torch.testing.assert_close(result, full[row, step - started[row]], rtol=1e-4, atol=1e-4)


def test_several_positions_in_one_call_equal_one_at_a_time(model: Transformer, config: ModelConfig) -> None:
    """A forced prefix is read at once, each position seeing those before it."""
    device = model.embedding.weight.device
    source, target = _ids(1, 6, device), _ids(1, 5, device, seed=2)
    with torch.inference_mode():
        cache = _cached(model, config, list(source), [1])
        positions = torch.arange(5, device=device)
        slots = torch.ones_like(positions)
        queries = Queries(model.shift_right(target)[0], positions, slots, slots, torch.full_like(positions, 6))
        logits = decode(model, cache, queries, Width(6, 5))
        torch.testing.assert_close(logits, model(source, target)[0], rtol=1e-4, atol=1e-4)


def _packed_rows(rows: list[list[Tensor]], length: int) -> Rows:
    """Sentences one after another in each row."""
    sides = torch.zeros(3, len(rows), length, dtype=torch.long)
    for row, sentences in enumerate(rows):
        start = 0
        for segment, ids in enumerate(sentences, 1):
            place = slice(start, start + len(ids))
            sides[0, row, place], sides[1, row, place] = ids, torch.arange(len(ids))
            sides[2, row, place] = segment
            start += len(ids)
    return Rows(*sides)


# The source of the first row is full: what fills up its target has no key to look at.
_SOURCE_LENGTHS = [[4, 2, 3], [6]]
_TARGET_LENGTHS = [[3, 4, 1], [5]]


@pytest.mark.parametrize("order", ["pre", "post"])
def test_packed_pairs_are_taught_as_each_pair_alone(config: ModelConfig, order: NormOrder) -> None:
    """Logits, and the gradient of their sum."""
    generator = torch.Generator().manual_seed(3)
    sides = [
        [[torch.randint(3, 97, (length,), generator=generator) for length in row] for row in lengths]
        for lengths in (_SOURCE_LENGTHS, _TARGET_LENGTHS)
    ]
    packed, alone = (random_model(config.model_copy(update={"norm_order": order})) for _ in range(2))
    states = packed.teach(_packed_rows(sides[0], 9), _packed_rows(sides[1], 10))
    assert states.isfinite().all()
    assert states.shape == (2, 10, config.d_model)
    total: Tensor = torch.zeros(())
    for row, (sources, targets) in enumerate(zip(*sides, strict=True)):
        start = 0
        for source, target in zip(sources, targets, strict=True):
            expected = alone(source[None], target[None])
            logits = packed.projection(states[row, start : start + len(target)])
            torch.testing.assert_close(logits, expected[0], rtol=1e-4, atol=1e-4)
            weight = torch.randn(logits.shape, generator=generator)
            total = total + (logits * weight).sum()
            (expected[0] * weight).sum().backward()
            start += len(target)
    total.backward()  # type: ignore[no-untyped-call]
    for (name, ours), theirs in zip(packed.named_parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-3, msg=name)


@pytest.mark.parametrize("kind", ["dropout", "attention_dropout"])
def test_each_dropout_acts_in_training_only(config: ModelConfig, kind: str) -> None:
    source, target = _ids(1, 5, torch.device("cpu")), _ids(1, 4, torch.device("cpu"))
    rates = {"dropout": 0.0, "attention_dropout": 0.0} | {kind: 0.5}
    model = random_model(config.model_copy(update=rates))
    torch.testing.assert_close(model(source, target), model(source, target))
    model.train()
    assert (model(source, target) - model(source, target)).abs().max() > 1e-3


def test_residuals_drop_without_the_embeddings(config: ModelConfig) -> None:
    source, target = _ids(1, 5, torch.device("cpu")), _ids(1, 4, torch.device("cpu"))
    model = random_model(config.model_copy(update={"dropout": 0.5})).train()
    model.source_input.dropout.p = model.target_input.dropout.p = 0.0
    assert (model(source, target) - model(source, target)).abs().max() > 1e-3
