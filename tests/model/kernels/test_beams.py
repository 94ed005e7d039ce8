"""Operators that beams need: the best extensions of each hypothesis, and copies of its K/V."""

import pytest
import torch

from model import kernels
from model.topk import largest

pytestmark = pytest.mark.usefixtures("way")


@pytest.mark.parametrize(("vocab", "count"), [(1000, 8), (64, 64), (5, 8), (131, 32), (1, 1)])
def test_best_extensions(vocab: int, count: int) -> None:
    torch.manual_seed(0)
    sizes = [1, 4, 1, 3]
    logits, totals = 4 * torch.randn(9, vocab), torch.linspace(-3.0, 0.0, 9)
    best = kernels.best_extensions(logits, totals, sizes, count)
    sums = logits.log_softmax(dim=-1) + totals[:, None]
    for beam, own in enumerate(torch.split(sums, sizes)):
        expected, places = largest(own.reshape(1, -1), count)
        found = expected.shape[1]
        parents, tokens = places[0] // vocab, places[0] % vocab
        assert torch.equal(best.parents[beam, :found], parents)
        assert torch.equal(best.tokens[beam, :found], tokens)
        torch.testing.assert_close(best.totals[beam, :found], expected[0])
        before = torch.split(totals, sizes)[beam][parents]
        torch.testing.assert_close(best.logprobs[beam, :found], expected[0] - before, rtol=1e-5, atol=1e-5)
        assert best.totals[beam, found:].isneginf().all(), "filled up"


def test_of_equal_ones_the_lowest_token_is_first() -> None:
    logits = torch.zeros(1, 300)
    logits[0, [3, 70, 290]] = 2.0
    logits[0, 200] = 5.0
    best = kernels.best_extensions(logits, torch.zeros(1), [1], 6)
    assert best.tokens.tolist() == [[200, 3, 70, 290, 0, 1]]


def test_of_equal_ones_the_earlier_row_s_are_first() -> None:
    best = kernels.best_extensions(torch.zeros(3, 2), torch.tensor([-1.0, -1.0, 0.0]), [3], 5)
    assert best.parents.tolist() == [[2, 2, 0, 0, 1]]
    assert best.tokens.tolist() == [[0, 1, 0, 1, 0]]


def test_forbidden_tokens_come_last() -> None:
    logits = torch.zeros(1, 6)
    logits[0, [0, 1, 4]] = -torch.inf
    best = kernels.best_extensions(logits, torch.tensor([-1.0]), [1], 6)
    assert best.tokens[0, :3].tolist() == [2, 3, 5]
    assert best.totals[0, 3:].isneginf().all()


@pytest.mark.parametrize("sizes", [[5, -4], [-1, 2], [2], [0], []])
def test_beams_that_are_not_the_rows_are_refused(sizes: list[int]) -> None:
    with pytest.raises(RuntimeError, match=r"split_sizes|best_extensions: beam"):
        kernels.best_extensions(torch.zeros(1, 3), torch.zeros(1), sizes, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_copies_are_made_in_order_and_no_further(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    buffer = torch.randn(2, 5, 3, 7, 4).to(dtype)
    before = buffer.clone()
    kernels.copy_slots(buffer, torch.tensor([(0, 1, 3), (1, 4, 7)]))
    assert torch.equal(buffer[:, 1, :, :3], before[:, 0, :, :3])
    assert torch.equal(buffer[:, 1, :, 3:], before[:, 1, :, 3:])
    assert torch.equal(buffer[:, 4], buffer[:, 1])
    for untouched in (0, 2, 3):
        assert torch.equal(buffer[:, untouched], before[:, untouched])
