"""The C++ operators and their PyTorch fallback: equal to attention by its definition, and blind to other rows."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model import kernels
from model.attention import attention_weights

HEADS, WIDTH = 3, 20  # no multiple of any vector's length


def _definition(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """`query [heads, width]` over `keys [heads, length, width]`."""
    mask = torch.zeros(1, 1, 1, keys.shape[1])
    return (attention_weights(query[None, :, None], keys[None], mask) @ values[None])[0, :, 0]


def test_rows_see_their_part_of_their_slot(way: None) -> None:
    torch.manual_seed(0)
    keys, values = torch.randn(2, 6, HEADS, 300, WIDTH).unbind(0)
    slots, lengths = torch.tensor([4, 0, 5, 0]), torch.tensor([1, 300, 17, 64])
    query = 3 * torch.randn(4, HEADS, WIDTH)
    mixed = kernels.attend_slots(query, keys, values, slots, lengths)
    for row, (slot, length) in enumerate(zip(slots, lengths, strict=True)):
        expected = _definition(query[row], keys[slot, :, :length], values[slot, :, :length])
        torch.testing.assert_close(mixed[row], expected, rtol=1e-5, atol=1e-6)


def test_sequences_see_themselves(way: None) -> None:
    torch.manual_seed(0)
    lengths = [1, 40, 7]
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    query, keys, values = torch.randn(3, sum(lengths), HEADS, WIDTH).unbind(0)
    mixed = kernels.attend_packed(query, keys, values, offsets)
    for start, end in pairwise(offsets.tolist()):
        for token in range(start, end):
            own = (tensor[start:end].transpose(0, 1) for tensor in (keys, values))
            torch.testing.assert_close(mixed[token], _definition(query[token], *own), rtol=1e-5, atol=1e-6)


def test_scores_far_apart_do_not_overflow(way: None) -> None:
    keys = torch.zeros(1, HEADS, 4, WIDTH)
    keys[..., 1, :] = 1e3
    values = torch.arange(4.0)[None, None, :, None].expand_as(keys).contiguous()
    for sign, expected in ((1.0, 1.0), (-1.0, 5 / 3)):
        query = torch.full((1, HEADS, WIDTH), sign)
        mixed = kernels.attend_slots(query, keys, values, torch.tensor([0]), torch.tensor([4]))
        torch.testing.assert_close(mixed, torch.full_like(mixed, expected))


def test_a_row_has_the_same_bits_alone_and_among_others(operators: None) -> None:
    torch.manual_seed(0)
    keys, values = torch.randn(2, 64, HEADS, 50, WIDTH).unbind(0)
    slots, lengths = torch.randperm(64), torch.randint(1, 50, (64,))
    query = torch.randn(64, HEADS, WIDTH)
    together = kernels.attend_slots(query, keys, values, slots, lengths)
    for row in range(64):
        one = slice(row, row + 1)
        assert torch.equal(kernels.attend_slots(query[one], keys, values, slots[one], lengths[one])[0], together[row])


@pytest.mark.parametrize(("slot", "length"), [(3, 1), (-1, 1), (0, 6), (0, 0)])
def test_what_is_outside_of_the_buffer_is_refused(operators: None, slot: int, length: int) -> None:
    keys = torch.zeros(3, HEADS, 5, WIDTH)
    with pytest.raises(RuntimeError, match=rf"row 0 looks at {length} positions of slot {slot}"):
        kernels.attend_slots(keys[:1, :, 0], keys, keys, torch.tensor([slot]), torch.tensor([length]))


def test_offsets_that_do_not_fit_are_refused(operators: None) -> None:
    tokens = torch.zeros(5, HEADS, WIDTH)
    for offsets in ([0, 6], [0, 3], [0, 4, 2, 5]):
        with pytest.raises(RuntimeError, match="offsets"):
            kernels.attend_packed(tokens, tokens, tokens, torch.tensor(offsets))


def test_without_a_compiler_there_is_a_warning_and_the_fallback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path)
    monkeypatch.setattr(kernels, "file_name", lambda: "none.so")
    kernels.load.cache_clear()
    try:
        assert not kernels.load()
    finally:
        kernels.load.cache_clear()
    assert "6 to 14 times slower: there is no C++ compiler; install g++" in caplog.text
