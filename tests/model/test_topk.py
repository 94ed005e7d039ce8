"""The best of many scores, where a device must not wait: what equal ones do, and that nobody reads a value."""

import pytest
import torch

from model import kernels
from model.topk import best_extensions, largest, members


@pytest.mark.parametrize(("columns", "count"), [(1, 1), (5, 8), (128, 3), (300, 4), (300, 299), (1000, 7)])
@pytest.mark.parametrize("kinds", [1, 3, 100_000])
def test_equal_ones_are_in_the_order_of_their_columns(columns: int, count: int, kinds: int) -> None:
    """Few kinds of numbers, so that most are equal; zeros of both signs, and impossible ones."""
    generator = torch.Generator().manual_seed(columns)
    scores = (torch.randint(0, kinds, (40, columns), generator=generator) - kinds // 2) * -0.5
    scores[:, ::2] += 0.0  # which makes -0.0 positive
    scores[::3, ::5] = -torch.inf
    values, places = largest(scores, count)
    expected, order = scores.sort(dim=-1, descending=True, stable=True)
    assert torch.equal(values, expected[:, :count])
    assert torch.equal(places, order[:, :count])


@pytest.mark.parametrize(("vocab", "count"), [(3, 8), (200, 8), (1000, 16)])
@pytest.mark.parametrize("kinds", [2, 30])
def test_beams_are_ranked_as_the_operator_ranks_them(operators: None, vocab: int, count: int, kinds: int) -> None:
    """Totals are equal to the last bit, with many equal sums within rows and between them."""
    generator = torch.Generator().manual_seed(vocab)
    sizes = [1, 4, 2, 1, 3]
    logits = torch.randint(0, kinds, (11, vocab), generator=generator).float()
    logits[2::3] = logits[1]
    logits[:, ::7] = -torch.inf
    totals = torch.randint(-1, 1, (11,), generator=generator).float()
    expected = kernels.best_extensions(logits, totals, sizes, count)
    highest = kernels.best_extensions(logits, torch.zeros(11), [1] * 11, 1).logprobs[:, 0]
    found = best_extensions(logits, highest, totals, members(11, sizes), count)
    possible = expected.totals > -torch.inf
    assert torch.equal(found.totals, expected.totals)
    assert all(torch.equal(mine[possible], other[possible]) for mine, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("broken", [-torch.inf, torch.nan, -torch.nan])
def test_a_broken_row_shows_in_its_beam_alone(broken: float) -> None:
    logits = torch.zeros(3, 200)
    logits[1] = broken
    best = best_extensions(logits, torch.zeros(3), torch.zeros(3), members(3, [1, 2]), 4)
    assert best.totals[0].isfinite().all()
    assert best.totals[1].isnan().all()


def test_no_value_is_read() -> None:
    """Tensors of this device have none."""
    rows = torch.empty(6, device="meta")
    best = best_extensions(torch.empty(6, 1000, device="meta"), rows, rows, members(6, [2, 4]).to("meta"), 8)
    assert {each.shape for each in best} == {(2, 8)}
