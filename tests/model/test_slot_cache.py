"""The buffer of a device without room for it."""

import pytest
import torch

from model.config import ModelConfig
from model.slot_cache import SlotCache


def test_without_memory_it_says_what_would_help(config: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "zeros", full)
    # Two layers, 9 slots, 48 positions of 32 numbers.
    with pytest.raises(RuntimeError, match=r"no 110592 bytes .*CUDA out of memory.*fewer slots need less"):
        SlotCache(config, slots=9, max_source_length=48, max_target_length=48, device="meta")
