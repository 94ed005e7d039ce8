"""What beams need: the best extensions of each hypothesis, and copies of its K/V."""

import pytest
import torch

from model import kernels
from model.ranking import largest


@pytest.fixture(params=["operators", "fallback"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "fallback":
        monkeypatch.setattr(kernels, "load", lambda: False)
    else:
        request.getfixturevalue("operators")


@pytest.mark.parametrize(("vocab", "count"), [(1000, 8), (64, 64), (5, 8), (131, 32), (1, 1)])
def test_best_extensions(vocab: int, count: int) -> None:
    torch.manual_seed(0)
    logits, totals = 4 * torch.randn(9, vocab), torch.linspace(-30.0, 0.0, 9)
    sums, tokens, logprobs = kernels.best_extensions(logits, totals, count)
    expected, places = largest(logits.log_softmax(dim=-1) + totals[:, None], count)
    assert torch.equal(tokens, places)
    torch.testing.assert_close(sums, expected)
    torch.testing.assert_close(logprobs, expected - totals[:, None], rtol=1e-5, atol=1e-5)


def test_of_equal_ones_the_lowest_token_is_first() -> None:
    logits = torch.zeros(1, 300)
    logits[0, [3, 70, 290]] = 2.0
    logits[0, 200] = 5.0
    _, tokens, _ = kernels.best_extensions(logits, torch.zeros(1), 6)
    assert tokens.tolist() == [[200, 3, 70, 290, 0, 1]]


def test_forbidden_tokens_come_last() -> None:
    logits = torch.zeros(1, 6)
    logits[0, [0, 1, 4]] = -torch.inf
    sums, tokens, _ = kernels.best_extensions(logits, torch.tensor([-1.0]), 6)
    assert tokens[0, :3].tolist() == [2, 3, 5]
    assert sums[0, 3:].isneginf().all()
    assert sorted(tokens[0].tolist()) == [0, 1, 2, 3, 4, 5]


def test_copies_are_made_in_order_and_no_further() -> None:
    torch.manual_seed(0)
    arena = torch.randn(2, 5, 3, 7, 4)
    before = arena.clone()
    kernels.copy_slots(arena, [(0, 1, 3), (1, 4, 7)])
    assert torch.equal(arena[:, 1, :, :3], before[:, 0, :, :3])
    assert torch.equal(arena[:, 1, :, 3:], before[:, 1, :, 3:])
    assert torch.equal(arena[:, 4], arena[:, 1])
    for untouched in (0, 2, 3):
        assert torch.equal(arena[:, untouched], before[:, untouched])
