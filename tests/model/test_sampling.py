"""Sampling is a pure function of logits, options and a hash of seed and position."""

import math

import pytest
import torch
from torch import Tensor

from model import kernels
from model.kernels import library
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


def test_log_probabilities_of_large_logits_lose_no_digits() -> None:
    logits = torch.tensor([[4096.0, 4095.0, 4080.0], [-4096.0, -9e4, -9e4]])
    logprobs = greedy(logits).logprobs
    assert logprobs.tolist() == pytest.approx(logits.double().log_softmax(-1).amax(-1).tolist(), rel=1e-6)
    assert str(logprobs[1].item()) == "0.0"


def test_temperature_zero_is_greedy(way: None) -> None:
    logits = torch.randn(5, 11, generator=torch.Generator().manual_seed(0))
    assert sample(logits, _parameters(5, temperature=0.0)).tokens.tolist() == greedy(logits).tokens.tolist()


def test_draws_follow_the_distribution(way: None) -> None:
    _assert_frequencies(sample(LOGITS.expand(DRAWS, 4), _parameters(DRAWS)).tokens, PROBABILITIES)


def test_temperature_sharpens(way: None) -> None:
    tokens = sample(LOGITS.expand(DRAWS, 4), _parameters(DRAWS, temperature=0.5)).tokens
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
def test_top_k_and_top_p_leave_the_best(way: None, options: dict[str, float], left: list[float]) -> None:
    tokens = sample(LOGITS.expand(DRAWS, 4), _parameters(DRAWS, **options)).tokens  # type: ignore[arg-type]
    _assert_frequencies(tokens, torch.tensor(left))


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-38, 1e-43])
def test_the_smaller_the_temperature_the_greedier(way: None, temperature: float) -> None:
    logits = 30 * torch.randn(8, 50, generator=torch.Generator().manual_seed(0))
    assert sample(logits, _parameters(8, temperature=temperature)).tokens.tolist() == logits.argmax(-1).tolist()


def test_a_row_does_not_depend_on_the_others(way: None) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 300, generator=generator)
    parameters = SamplingParameters(
        torch.rand(64, generator=generator) * 2,
        torch.randint(0, 20, (64,), generator=generator),
        torch.rand(64, generator=generator),
        noise_states(torch.arange(64) % 9, torch.arange(64)),
    )
    together = sample(logits, parameters).tokens.tolist()
    temperature, top_k, top_p, noise = parameters
    alone = []
    for i in range(64):
        row = slice(i, i + 1)
        parameters = SamplingParameters(temperature[row], top_k[row], top_p[row], noise[row])
        alone.append(sample(logits[row], parameters).tokens.item())
    assert together == alone


def test_the_last_bits_of_the_logits_hardly_matter(way: None) -> None:
    """float32 logits differ by 1e-5 with the shape of a batch; no draw may turn on that. (Inverting the sorted
    cumulative distribution gave another token at 2 of 500 such draws: at one sentence in ten or so.)
    """
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(500, 8000, generator=generator)
    nudged = logits + 1e-5 * torch.randn(500, 8000, generator=generator)
    parameters = _parameters(500, temperature=1.5)
    assert sample(logits, parameters).tokens.tolist() == sample(nudged, parameters).tokens.tolist()


def test_log_probabilities_are_of_the_logits(way: None) -> None:
    logits = torch.randn(8, 50, generator=torch.Generator().manual_seed(0))
    tokens, logprobs = sample(logits, _parameters(8, temperature=2.0, top_k=9, top_p=0.9))
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).gather(-1, tokens[:, None])[:, 0])


def _of_all_kinds(rows: int, logits: Tensor) -> SamplingParameters:
    """Every mixture of temperature, top-k and top-p, among them what leaves one token, and all."""
    generator = torch.Generator().manual_seed(1)

    def one_of(values: list[float]) -> Tensor:
        return torch.tensor(values)[torch.randint(0, len(values), (rows,), generator=generator)]

    return SamplingParameters(
        one_of([0.0, 1e-30, 0.3, 1.0, 4.0]),
        one_of([0, 0, 1, 5, 300, logits.shape[1] + 1]).long(),
        one_of([1.0, 1.0, 1e-6, 0.3, 0.9, 0.9999]),
        noise_states(torch.arange(rows), torch.arange(rows) % 7),
    )


@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0, 30.0])
@pytest.mark.usefixtures("operators")
def test_the_operator_is_the_definition(monkeypatch: pytest.MonkeyPatch, spread: float) -> None:
    """Rows where all logits are equal, many near, or hardly any; and some with forbidden tokens."""
    logits = spread * torch.randn(600, 777, generator=torch.Generator().manual_seed(0))
    logits[:100, 5:] = -math.inf
    logits[100:200] = logits[100:200].round()  # ties
    parameters = _of_all_kinds(600, logits)
    tokens, logprobs = sample(logits, parameters)
    monkeypatch.setattr(kernels, "load", lambda: False)
    expected = sample(logits, parameters)
    assert torch.equal(tokens, expected.tokens)
    torch.testing.assert_close(logprobs, expected.logprobs)


@pytest.mark.usefixtures("operators")
def test_every_variant_and_any_number_of_threads_give_the_same_bits() -> None:
    logits = 4 * torch.randn(300, 777, generator=torch.Generator().manual_seed(0))
    parameters = _of_all_kinds(300, logits)
    best, *others = library.variants()
    expected = sample(logits, parameters)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for variant in (best, *others):
            library.choose_variant(variant)
            tokens, logprobs = sample(logits, parameters)
            assert torch.equal(tokens, expected.tokens)
            assert torch.equal(logprobs, expected.logprobs)
    finally:
        torch.set_num_threads(before)
        library.choose_variant(best)


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
