"""Linear recurrences are the sums that their definition says, however many positions are taken at once."""

import pytest
import torch
from torch import Tensor

from model.cache import NoCache
from model.config import ModelConfig
from model.layers import SSRU
from model.recurrence import PLACES, advance_slots, scan
from model.slot_cache import SlotCache

WIDTH = 6


def _one_by_one(keep: Tensor, new: Tensor, state: Tensor) -> list[Tensor]:
    states = []
    for each, added in zip(keep, new, strict=True):
        state = each * state + added
        states.append(state)
    return states


def _inputs(length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(length, WIDTH, generator=generator), torch.randn(length, WIDTH, generator=generator)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 37])
def test_a_scan_is_the_sum_one_by_one(length: int) -> None:
    pairs = [_inputs(length, seed) for seed in (0, 1)]
    keep, new = (torch.stack(each) for each in zip(*pairs, strict=True))
    expected = [torch.stack(_one_by_one(*pair, torch.zeros(WIDTH))) for pair in pairs]
    torch.testing.assert_close(scan(keep, new), torch.stack(expected))


def test_a_scan_of_halves_is_summed_in_float32() -> None:
    """A sum in bfloat16 would stay at 256."""
    states = scan(torch.ones(1, 1000, 1, dtype=torch.bfloat16), torch.ones(1, 1000, 1, dtype=torch.bfloat16))
    assert states[0, -1].item() == 1000


def test_rows_go_on_where_their_slots_are() -> None:
    """Slots at different ages, with one row or several of a slot, in a buffer that others have used."""
    buffer = torch.randn(5, PLACES, WIDTH)
    sequences = {slot: _inputs(9, seed=slot) for slot in range(4)}
    expected = {slot: _one_by_one(*pair, torch.zeros(WIDTH)) for slot, pair in sequences.items()}
    steps = [
        [(2, range(5)), (0, range(1))],
        [(2, range(5, 6)), (0, range(1, 2)), (3, range(2))],
        [(3, range(2, 5)), (2, range(6, 7)), (1, range(3))],
        [(3, range(5, 9)), (2, range(7, 9)), (1, range(3, 4))],
    ]
    for step in steps:
        rows = [(slot, position) for slot, positions in step for position in positions]
        slots, positions = torch.tensor(rows).T
        keep, new = (torch.stack([sequences[slot][kind][position] for slot, position in rows]) for kind in (0, 1))
        for (slot, position), state in zip(rows, advance_slots(buffer, slots, positions, keep, new), strict=True):
            torch.testing.assert_close(state, expected[slot][position])


def test_a_step_may_be_repeated() -> None:
    buffer = torch.randn(2, PLACES, WIDTH)
    keep, new = _inputs(4)
    slots, positions = torch.zeros(4, dtype=torch.long), torch.arange(4)
    advance_slots(buffer, slots[:3], positions[:3], keep[:3], new[:3])
    once = advance_slots(buffer, slots[3:], positions[3:], keep[3:], new[3:])
    again = advance_slots(buffer, slots[3:], positions[3:], keep[3:], new[3:])
    assert torch.equal(once, again)


def test_states_are_copied_with_as_many_positions_as_there_are() -> None:
    config = ModelConfig(vocab_size=9, d_model=WIDTH, num_heads=2, decoder_layers=2, decoder_memory="ssru")
    cache = SlotCache(config, slots=3, max_source_length=4, max_target_length=30)
    states = cache.buffers()["target_states"].normal_()
    cache.copy_target([(0, 2, 17)])
    assert torch.equal(states[:, 2], states[:, 0])
    cache.copy_target([(1, 2, 1)])
    assert torch.equal(states[:, 2, :, 0], states[:, 1, :, 0])
    assert torch.equal(states[:, 2, :, 1], states[:, 0, :, 1])


def test_an_ssru_is_its_formula() -> None:
    """Kim et al. 2019, in float64, one position at a time."""

    config = ModelConfig(vocab_size=9, d_model=WIDTH, num_heads=2, decoder_memory="ssru")
    torch.manual_seed(0)
    cell = SSRU(config)
    inputs = torch.randn(2, 5, WIDTH)
    with torch.inference_mode():
        given = cell(inputs, None, NoCache(), 0)
    weight, gates = cell.input.weight.double(), cell.forget.weight.double()
    state = torch.zeros(2, WIDTH, dtype=torch.float64)
    for position in range(5):
        each = inputs[:, position].double()
        forget = torch.sigmoid(each @ gates.T + cell.forget.bias)
        state = forget * state + (1 - forget) * (each @ weight.T)
        torch.testing.assert_close(given[:, position].double(), state.clamp(min=0), rtol=1e-5, atol=1e-6)
