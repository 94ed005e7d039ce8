"""Sampling is a pure function of logits, options and a hash of seed and position."""

import math

import pytest
import torch
from torch import Tensor

from model.sampling import SamplingParameters, greedy, gumbel_noise, noise_states, sample


def _parameters(rows: int, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> SamplingParameters:
    return SamplingParameters(
        torch.full((rows,), temperature),
        torch.full((rows,), top_k),
        torch.full((rows,), top_p),
        noise_states(torch.full((rows,), 7), torch.arange(rows)),
    )


PROBABILITIES = torch.tensor([0.3, 0.5, 0.05, 0.15])
LOGITS = PROBABILITIES.log()
DRAWS = 4000


def _assert_frequencies(tokens: Tensor, probabilities: Tensor) -> None:
    """Counts within four standard deviations of what `probabilities` say."""
    counts = torch.bincount(tokens, minlength=4).double()
    deviation = (DRAWS * probabilities * (1 - probabilities)).sqrt()
    assert ((counts - DRAWS * probabilities).abs() <= 4 * deviation).all(), counts


def test_greedy_takes_the_best_with_its_log_probability() -> None:
    logits = torch.randn(5, 11, generator=torch.Generator().manual_seed(0))
    chosen = greedy(logits)
    assert chosen.tokens.tolist() == logits.argmax(-1).tolist()
    torch.testing.assert_close(chosen.logprobs, logits.log_softmax(-1).amax(-1))


def test_temperature_zero_is_greedy() -> None:
    logits = torch.randn(5, 11, generator=torch.Generator().manual_seed(0))
    assert sample(logits, _parameters(5, temperature=0.0)).tolist() == greedy(logits).tokens.tolist()


def test_draws_follow_the_distribution() -> None:
    _assert_frequencies(sample(LOGITS.expand(DRAWS, 4), _parameters(DRAWS)), PROBABILITIES)


def test_temperature_sharpens() -> None:
    tokens = sample(LOGITS.expand(DRAWS, 4), _parameters(DRAWS, temperature=0.5))
    squares = PROBABILITIES.square()
    _assert_frequencies(tokens, squares / squares.sum())


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"top_k": 2}, [0.375, 0.625, 0, 0]),
        ({"top_p": 0.7}, [0.375, 0.625, 0, 0]),  # 0.5 + 0.3 is the smallest set that reaches 0.7
        ({"top_p": 0.9}, [0.3 / 0.95, 0.5 / 0.95, 0, 0.15 / 0.95]),
        ({"top_p": 1e-6}, [0, 1, 0, 0]),
        ({"top_p": 0.0}, [0, 1, 0, 0]),  # what 1e-300 is in float32: the best stays
        ({"top_k": 2**31 - 1}, PROBABILITIES.tolist()),
    ],
)
def test_top_k_and_top_p_leave_the_best(options: dict[str, float], left: list[float]) -> None:
    tokens = sample(LOGITS.expand(DRAWS, 4), _parameters(DRAWS, **options))  # type: ignore[arg-type]
    _assert_frequencies(tokens, torch.tensor(left))


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-38, 1e-43])
def test_the_smaller_the_temperature_the_greedier(temperature: float) -> None:
    logits = 30 * torch.randn(8, 50, generator=torch.Generator().manual_seed(0))
    assert sample(logits, _parameters(8, temperature=temperature)).tolist() == logits.argmax(-1).tolist()


def test_a_row_does_not_depend_on_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 300, generator=generator)
    parameters = SamplingParameters(
        torch.rand(64, generator=generator) * 2,
        torch.randint(0, 20, (64,), generator=generator),
        torch.rand(64, generator=generator),
        noise_states(torch.arange(64) % 9, torch.arange(64)),
    )
    together = sample(logits, parameters).tolist()
    temperature, top_k, top_p, noise, _ = parameters
    alone = []
    for i in range(64):
        row = slice(i, i + 1)
        parameters = SamplingParameters(temperature[row], top_k[row], top_p[row], noise[row])
        alone.append(sample(logits[row], parameters).item())
    assert together == alone


def test_the_last_bits_of_the_logits_hardly_matter() -> None:
    """float32 logits differ by 1e-5 with the shape of a batch; no draw may turn on that. (Inverting the sorted
    cumulative distribution gave another token at 2 of 500 such draws: at one sentence in ten or so.)
    """
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(500, 8000, generator=generator)
    nudged = logits + 1e-5 * torch.randn(500, 8000, generator=generator)
    parameters = _parameters(500, temperature=1.5)
    assert sample(logits, parameters).tolist() == sample(nudged, parameters).tolist()


def test_unrestricted_rows_need_no_sorting() -> None:
    logits = torch.randn(64, 300, generator=torch.Generator().manual_seed(0))
    parameters = _parameters(64, temperature=1.5)
    tokens = sample(logits, parameters).tolist()
    assert sample(logits, parameters._replace(restricted=False)).tolist() == tokens


def test_noise_is_a_function_of_seed_position_and_token() -> None:
    seeds, positions = torch.tensor([0, 1, 2**63 - 1]).repeat_interleave(300), torch.arange(300).repeat(3)
    states = noise_states(seeds, positions)
    assert torch.equal(noise_states(seeds[5:6], positions[5:6]), states[5:6])
    assert len(set(states.tolist())) == len(states)
    noise = gumbel_noise(states, 200)
    assert noise.isfinite().all()
    torch.testing.assert_close(noise[5:6], gumbel_noise(states[5:6], 200), rtol=0, atol=0)
    # A standard Gumbel number has mean 0.5772 and variance pi^2 / 6.
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, rel=0.02)
    correlations = torch.corrcoef(noise[:50]).fill_diagonal_(0)
    assert correlations.abs().max() < 0.4
