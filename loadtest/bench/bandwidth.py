"""The limit of a decode step on a GPU: the speed if reading memory were its only work."""

import time
from collections.abc import Sequence
from typing import Final

import torch

from loadtest.bench.workload import Request
from model.config import ModelConfig
from model.transformer import Transformer

_COPIED_BYTES: Final = 1 << 28
"""Several times what caches hold."""
_COPIES: Final = 20


def bandwidth(device: str, size: int = _COPIED_BYTES) -> float:
    """Return the bytes per second, read and written, of a copy within the device's memory: the best of some copies."""
    origin = torch.zeros(size, dtype=torch.uint8, device=device)
    destination = torch.empty_like(origin)
    shortest = float("inf")
    for _ in range(_COPIES):
        started = time.perf_counter()
        destination.copy_(origin)
        if origin.is_cuda:
            torch.cuda.synchronize(origin.device)
        shortest = min(shortest, time.perf_counter() - started)
    return 2 * size / shortest


def decoder_weights(config: ModelConfig) -> int:
    """Return how many weights a decode step reads, for any number of rows."""
    with torch.device("meta"):
        model = Transformer(config)
    modules = (model.decoder, model.decoder_norm, model.projection)
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def bytes_per_token(config: ModelConfig, requests: Sequence[Request], rows: int, number_bytes: int) -> float:
    """Return the bytes that a step reads for each of its rows: a share of the weights, and the row's keys and values.

    On average over the tokens of these requests. Neither padding nor the encoder is counted.
    """
    tokens = sum(request.new_tokens for request in requests)
    looked_at = sum(
        request.new_tokens * len(request.source_ids) + request.new_tokens * (request.new_tokens + 1) // 2
        for request in requests
    )
    numbers_a_position = 2 * config.decoder_layers * config.num_heads * config.head_dim
    return number_bytes * (decoder_weights(config) / rows + numbers_a_position * looked_at / tokens)
