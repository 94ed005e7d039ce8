"""Shared by the tests of the C++ transformer: a small model's shape, its sources, and a C++ one with its cache."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from model.config import Activation, ModelConfig, NormOrder
from model.cpp_transformer import KV_DTYPE, CppTransformer, DecodeScores
from model.decode_step import Outputs, Queries
from model.slot_cache import SlotCache
from model.transformer import Transformer

SLOTS = 12


# Sizes that fill no block, no group and no vector.
def fused_config(norm_order: NormOrder = "pre", activation: Activation = "relu") -> ModelConfig:
    return ModelConfig(
        vocab_size=777,
        d_model=42,
        ffn_dim=131,
        num_heads=3,
        encoder_layers=2,
        decoder_layers=2,
        max_positions=40,
        norm_order=norm_order,
        activation=activation,
    )


class Side:
    """A C++ model with a cache of its own."""

    def __init__(self, model: Transformer, *, has_shortlist: bool = False) -> None:
        self.cache = SlotCache(model.config, slots=SLOTS, max_source_length=20, max_target_length=20, dtype=KV_DTYPE)
        self.cpp = CppTransformer(copy.deepcopy(model), self.cache, has_shortlist=has_shortlist)

    def encode(self, sources: Sequence[Tensor], slots: Sequence[int]) -> None:
        self.cpp.encode(*packed(sources), slots)

    def decode(self, tokens: Tensor, positions: Tensor, slots: Tensor, lengths: Tensor) -> DecodeScores:
        everything = list(range(len(tokens)))
        return self.cpp.decode(
            Queries(tokens, positions, slots, slots, lengths), Outputs(everything, everything, everything)
        )


def random_sources(count: int, config: ModelConfig) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(1, 20, (count,), generator=generator).tolist()
    words = config.source_vocab_size or config.vocab_size
    return [torch.randint(3, words, (length,), generator=generator) for length in lengths]


def packed(sources: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    lengths = [len(source) for source in sources]
    positions = torch.cat([torch.arange(length) for length in lengths])
    return torch.cat(list(sources)), positions, torch.tensor([0, *lengths]).cumsum(0)
