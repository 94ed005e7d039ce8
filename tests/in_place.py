"""The two kinds of attention that the runner for GPUs has, wherever tests run."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from model import kernels, slot_cache
from model.attention import padding_mask


def use_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runners pad, also where there is the kernel."""
    monkeypatch.setattr(kernels, "has_triton", lambda _: False)


def use_in_place(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    """Let runners attend in place: on a GPU by the kernel, elsewhere by `gathered_attention`."""
    if device.type == "cuda":
        assert kernels.has_triton(device)
        return
    monkeypatch.setattr(kernels, "has_triton", lambda _: True)
    monkeypatch.setattr(slot_cache, "attend_in_place", gathered_attention)


def gathered_attention(
    query: Tensor, keys: Tensor, values: Tensor, slots: Tensor, lengths: Tensor, origins: Tensor | None = None
) -> Tensor:
    """`attend_in_place` in PyTorch, row by row."""
    rows = []
    for row, (slot, length) in enumerate(zip(slots.tolist(), lengths.tolist(), strict=True)):
        places = torch.full((length,), slot) if origins is None else origins[slot, :length].long()
        seen = [each[places, :, torch.arange(length)].transpose(0, 1)[None] for each in (keys, values)]
        mask = padding_mask(torch.tensor([length]), length, query.dtype)
        rows.append(F.scaled_dot_product_attention(query[row][None, :, None], seen[0], seen[1], attn_mask=mask))
    return torch.cat(rows)[:, :, 0]
