"""Greedy decoding by steps is what the full forward pass says, token by token."""

import torch

from model.config import ModelConfig
from model.decoding import greedy_decode
from model.transformer import Transformer


def _sources(config: ModelConfig, count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(2, 12, (count,), generator=generator).tolist()
    return [[*torch.randint(3, 97, (n,), generator=generator).tolist(), config.eos_id] for n in lengths]


def test_each_token_is_the_argmax_of_the_full_forward(model: Transformer, config: ModelConfig) -> None:
    device = model.embedding.weight.device
    for source, target in zip(_sources(config, 8), greedy_decode(model, _sources(config, 8), 20), strict=True):
        logits = model(torch.tensor([source], device=device), torch.tensor([target], device=device))
        assert logits[0].argmax(-1).tolist() == target


def test_ends_with_eos_or_at_the_limit(model: Transformer, config: ModelConfig) -> None:
    outputs = greedy_decode(model, _sources(config, 32), 15)
    for output in outputs:
        assert config.eos_id not in output[:-1]
        assert output[-1] == config.eos_id or len(output) == 15
    assert len({tuple(output) for output in outputs}) > 16, "a model that ignores its source tests nothing"
