"""Offline decoding of whole batches: the oracle of the engine's tests, and what BLEU is measured with."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.attention import look_ahead_mask, padding_mask
from model.cache import SlotCache
from model.sampling import greedy
from model.transformer import Transformer


@torch.inference_mode()
def greedy_decode(model: Transformer, sources: Sequence[Sequence[int]], max_new_tokens: int) -> list[list[int]]:
    """Translate `sources` (ids, each ended by eos) together; returns ids without bos, ended by eos or cut at the limit.

    Rows that have ended go on computing until the last one ends: simple, and independent of the engine.
    """
    config = model.config
    device = model.embedding.weight.device
    slots = torch.arange(len(sources), device=device)
    lengths = torch.tensor([len(source) for source in sources], device=device)
    width = int(lengths.max())
    source_ids = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(source, device=device) for source in sources], batch_first=True, padding_value=config.pad_id
    )
    dtype = model.embedding.weight.dtype
    source_mask = padding_mask(lengths, width, dtype)
    source = model.encode(source_ids, source_mask)
    cache = SlotCache(
        config,
        slots=len(sources),
        max_source_length=1,
        max_target_length=max_new_tokens,
        dtype=dtype,
        device=device,
    )
    tokens = torch.full((len(sources),), config.bos_id, device=device)
    ended = torch.zeros(len(sources), dtype=torch.bool, device=device)
    steps: list[Tensor] = []
    for step in range(max_new_tokens):
        positions = torch.full((len(sources), 1), step, device=device)
        logits = model.decode(
            tokens[:, None],
            positions,
            look_ahead_mask(positions, step + 1, dtype),
            source,
            source_mask,
            cache.rows(slots, positions, step + 1),
        )
        tokens = greedy(logits[:, -1].float()).tokens
        steps.append(tokens)
        ended |= tokens == config.eos_id
        if bool(ended.all()):
            break
    return [_until_eos(row, config.eos_id) for row in torch.stack(steps, dim=1).tolist()]


def _until_eos(ids: list[int], eos_id: int) -> list[int]:
    return ids[: ids.index(eos_id) + 1] if eos_id in ids else ids
