"""Sampling is a pure function of logits, options and a uniform number."""

import pytest
import torch
from torch import Tensor

from model.sampling import SamplingParameters, greedy, sample, uniform


def _parameters(
    rows: int, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, draws: Tensor | None = None
) -> SamplingParameters:
    return SamplingParameters(
        torch.full((rows,), temperature),
        torch.full((rows,), top_k),
        torch.full((rows,), top_p),
        torch.rand(rows, generator=torch.Generator().manual_seed(0)) if draws is None else draws,
    )


LOGITS = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()


def test_greedy_takes_the_best_with_its_log_probability() -> None:
    logits = torch.randn(5, 11, generator=torch.Generator().manual_seed(0))
    chosen = greedy(logits)
    assert chosen.tokens.tolist() == logits.argmax(-1).tolist()
    torch.testing.assert_close(chosen.logprobs, logits.log_softmax(-1).amax(-1))


def test_temperature_zero_is_greedy() -> None:
    logits = torch.randn(5, 11, generator=torch.Generator().manual_seed(0))
    chosen, expected = sample(logits, _parameters(5, temperature=0.0)), greedy(logits)
    assert chosen.tokens.tolist() == expected.tokens.tolist()
    torch.testing.assert_close(chosen.logprobs, expected.logprobs)


def test_draws_follow_the_distribution() -> None:
    draws = (torch.arange(1000) + 0.5) / 1000  # every quantile once: frequencies come out exact
    tokens = sample(LOGITS.expand(1000, 4), _parameters(1000, draws=draws)).tokens
    assert torch.bincount(tokens, minlength=4).tolist() == [500, 300, 150, 50]


def test_temperature_sharpens() -> None:
    draws = (torch.arange(1000) + 0.5) / 1000
    tokens = sample(LOGITS.expand(1000, 4), _parameters(1000, temperature=0.5, draws=draws)).tokens
    squares = torch.tensor([0.25, 0.09, 0.0225, 0.0025])
    expected = 1000 * squares / squares.sum()
    assert (torch.bincount(tokens, minlength=4) - expected).abs().max() <= 1


def test_top_k_and_top_p_exclude_the_rest() -> None:
    draws = (torch.arange(1000) + 0.5) / 1000
    rows = LOGITS.expand(1000, 4)
    assert set(sample(rows, _parameters(1000, top_k=2, draws=draws)).tokens.tolist()) == {0, 1}
    # 0.5 + 0.3 is the smallest set that reaches 0.7.
    assert set(sample(rows, _parameters(1000, top_p=0.7, draws=draws)).tokens.tolist()) == {0, 1}
    assert set(sample(rows, _parameters(1000, top_p=1e-6, draws=draws)).tokens.tolist()) == {0}


def test_extreme_draws_stay_inside() -> None:
    draws = torch.tensor([0.0, 1 - 2**-24, 1.0])  # a float32 of the largest double below 1 is 1
    tokens = sample(LOGITS.expand(3, 4), _parameters(3, top_k=3, draws=draws)).tokens
    assert tokens.tolist() == [0, 2, 2]


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-38, 1e-43])
def test_the_smaller_the_temperature_the_greedier(temperature: float) -> None:
    logits = 30 * torch.randn(8, 50, generator=torch.Generator().manual_seed(0))
    assert sample(logits, _parameters(8, temperature=temperature)).tokens.tolist() == logits.argmax(-1).tolist()


def test_the_best_token_stays_when_top_p_vanishes() -> None:
    assert sample(LOGITS.expand(4, 4), _parameters(4, top_p=0.0)).tokens.tolist() == [0] * 4


def test_top_k_beyond_the_vocabulary_restricts_nothing() -> None:
    unrestricted = sample(LOGITS.expand(9, 4), _parameters(9)).tokens.tolist()
    assert sample(LOGITS.expand(9, 4), _parameters(9, top_k=2**31 - 1)).tokens.tolist() == unrestricted


def test_log_probabilities_are_those_of_the_model() -> None:
    """Not of the distribution that temperature and top-k made of them."""
    chosen = sample(LOGITS.expand(20, 4), _parameters(20, temperature=0.5, top_k=2))
    torch.testing.assert_close(chosen.logprobs, LOGITS[chosen.tokens])


def test_a_row_does_not_depend_on_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 300, generator=generator)
    parameters = SamplingParameters(
        torch.rand(64, generator=generator) * 2,
        torch.randint(0, 20, (64,), generator=generator),
        torch.rand(64, generator=generator),
        torch.rand(64, generator=generator),
    )
    together = sample(logits, parameters).tokens.tolist()
    alone = [
        sample(logits[i : i + 1], SamplingParameters(*(p[i : i + 1] for p in parameters))).tokens.item()
        for i in range(64)
    ]
    assert together == alone


def test_uniform_is_a_function_of_seed_and_position() -> None:
    assert uniform(7, 3) == uniform(7, 3)
    numbers = [uniform(seed, position) for seed in range(100) for position in range(100)]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 1 for number in numbers)
    counts = torch.histc(torch.tensor(numbers), bins=10, min=0, max=1)
    # 10,000 draws: a bin's standard deviation is 30.
    assert (counts - 1000).abs().max() < 150
