"""Properties of the whole model: no look-ahead, no trace of padding, and incremental = full forward."""

import pytest
import torch
from torch import Tensor

from model.attention import MultiHeadAttention, look_ahead_mask, padding_mask
from model.cache import SlotCache
from model.config import ModelConfig, NormOrder
from model.layers import PreNorm
from model.transformer import Transformer
from tests.conftest import random_model


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


def test_padding_gets_no_gradient(model: Transformer, device: torch.device) -> None:
    source = torch.cat([_ids(1, 5, device), torch.zeros(1, 3, dtype=torch.long, device=device)], 1)
    logits = model(source, _ids(1, 4, device, seed=2))
    logits.square().sum().backward()
    gradient = model.embedding.weight.grad
    assert gradient is not None
    assert gradient.isfinite().all()


def test_a_source_of_padding_alone_gives_no_nan(model: Transformer, device: torch.device) -> None:
    logits = model(torch.zeros(1, 4, dtype=torch.long, device=device), _ids(1, 3, device))
    assert logits.isfinite().all()


@pytest.mark.parametrize("order", ["pre", "post"])
def test_incremental_decoding_equals_the_full_forward(
    config: ModelConfig, order: NormOrder, device: torch.device
) -> None:
    model = random_model(config.model_copy(update={"norm_order": order})).to(device)
    source, target = _ids(3, 7, device), _ids(3, 9, device, seed=2)
    lengths = torch.tensor([7, 7, 7], device=device)
    mask = padding_mask(lengths, 7)
    with torch.inference_mode():
        full = model(source, target)
        cache = SlotCache(config, slots=3, max_source_length=7, max_target_length=9, device=device)
        slots = torch.tensor([2, 0, 1], device=device)
        cache.write_source(slots, model.encode(source, mask))
        inputs = target.roll(1, dims=1)
        inputs[:, 0] = config.bos_id
        for step in range(9):
            positions = torch.full((3, 1), step, device=device)
            logits = model.decode(
                inputs[:, step : step + 1],
                positions,
                look_ahead_mask(positions, step + 1),
                cache.source(slots, 7),
                mask,
                cache.rows(slots, positions, step + 1),
            )
            torch.testing.assert_close(logits[:, 0], full[:, step], rtol=1e-4, atol=1e-4)


def test_rows_of_one_step_may_be_of_different_age(model: Transformer, config: ModelConfig) -> None:
    """A row that joins when another is at position 3 decodes as it would alone; old slots leave no trace."""
    device = model.embedding.weight.device
    source, target = _ids(2, 6, device), _ids(2, 8, device, seed=2)
    mask = padding_mask(torch.tensor([6, 6], device=device), 6)
    with torch.inference_mode():
        full = model(source, target)
        cache = SlotCache(config, slots=2, max_source_length=6, max_target_length=8, device=device)
        # What an earlier request left in the slots must not matter.
        for arena in (*cache._target, *cache._source):
            arena.normal_()
        both = torch.arange(2, device=device)
        cache.write_source(both, model.encode(source, mask))
        inputs = target.roll(1, dims=1)
        inputs[:, 0] = config.bos_id

        def step(rows: Tensor, at: Tensor) -> Tensor:
            positions = at[:, None]
            keys = int(at.max()) + 1
            return model.decode(
                inputs[rows, at][:, None],
                positions,
                look_ahead_mask(positions, keys),
                cache.source(rows, 6),
                mask[rows],
                cache.rows(rows, positions, keys),
            )[:, 0]

        for at in range(3):
            step(both[:1], torch.tensor([at], device=device))
        for at in range(5):
            logits = step(both, torch.tensor([at + 3, at], device=device))
            torch.testing.assert_close(logits[0], full[0, at + 3], rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(logits[1], full[1, at], rtol=1e-4, atol=1e-4)


def test_dropout_acts_in_training_on_residuals_and_attention(config: ModelConfig) -> None:
    source, target = _ids(1, 5, torch.device("cpu")), _ids(1, 4, torch.device("cpu"))
    model = random_model(config.model_copy(update={"dropout": 0.5}))
    torch.testing.assert_close(model(source, target), model(source, target))
    model.train()
    model.embedding_dropout.p = 0.0
    kinds = {"residual": PreNorm, "attention": MultiHeadAttention}
    for silenced in kinds.values():
        for module in model.modules():
            if isinstance(module, PreNorm):
                module.dropout.p = 0.0 if silenced is PreNorm else 0.5
            elif isinstance(module, MultiHeadAttention):
                module.dropout = 0.0 if silenced is MultiHeadAttention else 0.5
        assert (model(source, target) - model(source, target)).abs().max() > 1e-3


def test_output_projection_is_the_embedding(model: Transformer) -> None:
    assert model.projection.weight is model.embedding.weight
