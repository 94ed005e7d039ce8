"""Decoding by steps is what the full forward pass says; a wide beam is exhaustive search, a beam of one is greedy."""

import itertools

import pytest
import torch
from torch import Tensor

from model.attention import look_ahead_mask, padding_mask
from model.cache import NoCache
from model.config import ModelConfig
from model.decoding import Hypothesis, beam_decode, greedy_decode
from model.transformer import Transformer
from tests.conftest import random_model

EOS = 25  # a token that this random model likes to write, so that rows end at different times


@pytest.fixture
def ending(config: ModelConfig, device: torch.device) -> Transformer:
    """A model that ends most of its translations early."""
    return random_model(config.model_copy(update={"eos_id": EOS})).to(device)


def _sources(config: ModelConfig, count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(2, 12, (count,), generator=generator).tolist()
    return [[*torch.randint(3, 97, (n,), generator=generator).tolist(), config.eos_id] for n in lengths]


def _assert_same(ours: list[Hypothesis], theirs: list[Hypothesis]) -> None:
    assert [hypothesis.ids for hypothesis in ours] == [hypothesis.ids for hypothesis in theirs]
    assert [hypothesis.score for hypothesis in ours] == pytest.approx([other.score for other in theirs], abs=1e-4)


def _logprobs(model: Transformer, source: list[int], targets: Tensor) -> Tensor:
    """Return log-probabilities of each next token `[targets, length, vocab]` by one pass of the decoder, with pad as
    any other token."""
    device = model.embedding.weight.device
    rows, length = targets.shape
    ids = torch.tensor([source], device=device).expand(rows, -1)
    source_mask = padding_mask(torch.tensor([len(source)], device=device), len(source))
    inputs = torch.cat([torch.full_like(targets[:, :1], model.config.bos_id), targets[:, :-1]], dim=1)
    positions = torch.arange(length, device=device).expand(rows, length)
    mask = look_ahead_mask(positions, length)
    with torch.inference_mode():
        encoded = model.encode(ids, source_mask)
        return model.decode(inputs, positions, mask, encoded, source_mask, NoCache()).log_softmax(-1)


def test_each_token_is_the_argmax_of_the_full_forward(model: Transformer, config: ModelConfig) -> None:
    device = model.embedding.weight.device
    for source, target in zip(_sources(config, 8), greedy_decode(model, _sources(config, 8), 20), strict=True):
        logits = model(torch.tensor([source], device=device), torch.tensor([target], device=device))
        assert logits[0].argmax(-1).tolist() == target


def test_ends_with_eos_or_at_the_limit(ending: Transformer) -> None:
    outputs = greedy_decode(ending, _sources(ending.config, 32), 40)
    for output in outputs:
        assert EOS not in output[:-1]
        assert output[-1] == EOS or len(output) == 40
    assert len({len(output) for output in outputs}) > 4, "rows that all end together test nothing"
    assert len({tuple(output) for output in outputs}) > 16, "a model that ignores its source tests nothing"


def test_nothing_to_translate(model: Transformer) -> None:
    assert greedy_decode(model, [], 5) == []
    assert beam_decode(model, [], 5, 4) == []


def test_a_row_goes_on_as_if_others_had_not_ended(ending: Transformer) -> None:
    sources = _sources(ending.config, 32)
    together = greedy_decode(ending, sources, 40)  # more positions than the cache starts with
    assert max(map(len, together)) == 40
    assert [greedy_decode(ending, [source], 40)[0] for source in sources] == together


def test_a_beam_of_one_is_greedy(ending: Transformer) -> None:
    sources = _sources(ending.config, 32)
    results = beam_decode(ending, sources, 40, 1)
    assert [best.ids for [best] in results] == greedy_decode(ending, sources, 40)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_everything_is_exhaustive(seed: int, length_penalty: float, device: torch.device) -> None:
    """Every sequence of five words up to three long, scored one by one."""
    config = ModelConfig(vocab_size=5, d_model=16, ffn_dim=32, num_heads=2, encoder_layers=1, decoder_layers=1)
    model, source, limit = random_model(config, seed).to(device), [3, 4, config.eos_id], 3
    words = torch.tensor(list(itertools.product(range(5), repeat=limit)), device=device)
    logprobs = _logprobs(model, source, words).gather(-1, words[..., None]).squeeze(-1).tolist()
    scores = {}
    for ids, each in zip(words.tolist(), logprobs, strict=True):
        length = ids.index(config.eos_id) + 1 if config.eos_id in ids else limit
        scores[tuple(ids[:length])] = sum(each[:length]) / length**length_penalty
    # 1 + 4 + 16 sequences end in eos, 64 are cut.
    assert len(scores) == 85
    [found] = beam_decode(model, [source], limit, 100, length_penalty, alternatives=100)
    assert {tuple(ids): score for ids, score in found} == pytest.approx(scores, abs=1e-5)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_the_documented_search_by_hand(ending: Transformer) -> None:
    """The same rules, written down again without a cache or a batch."""
    beam, limit, length_penalty = 3, 12, 0.7
    sources = _sources(ending.config, 12)
    stopped_early = 0
    for source, ours in zip(sources, beam_decode(ending, sources, limit, beam, length_penalty, beam), strict=True):
        live: list[tuple[list[int], float]] = [([], 0.0)]
        finished: list[Hypothesis] = []
        for _ in range(limit):
            inputs = torch.tensor([[*ids, 0] for ids, _ in live])
            nexts = _logprobs(ending, source, inputs.to(ending.embedding.weight.device))[:, -1].tolist()
            candidates = [
                ([*ids, token], logprob + each)
                for (ids, logprob), row in zip(live, nexts, strict=True)
                for token, each in enumerate(row)
            ]
            candidates = sorted(candidates, key=lambda candidate: -candidate[1])[: 2 * beam]
            for ids, logprob in candidates[:beam]:
                if ids[-1] == EOS:
                    finished.append(Hypothesis(ids, logprob / len(ids) ** length_penalty))
            live = [candidate for candidate in candidates if candidate[0][-1] != EOS][:beam]
            if len(finished) >= beam:
                live = []
                stopped_early += 1
                break
        finished += [Hypothesis(ids, logprob / limit**length_penalty) for ids, logprob in live]
        _assert_same(ours, sorted(finished, key=lambda hypothesis: -hypothesis.score)[:beam])
    assert 0 < stopped_early < len(sources), "both ways to end are wanted"


def test_a_source_is_not_swayed_by_its_neighbours(ending: Transformer) -> None:
    sources = _sources(ending.config, 32)
    together = beam_decode(ending, sources, 40, 4, alternatives=4)
    assert len({len(best.ids) for best, *_ in together}) > 4, "sources that all end together test nothing"
    for source, expected in zip(sources, together, strict=True):
        _assert_same(beam_decode(ending, [source], 40, 4, alternatives=4)[0], expected)
    backwards = beam_decode(ending, sources[::-1], 40, 4, alternatives=4)[::-1]
    for expected, found in zip(together, backwards, strict=True):
        _assert_same(found, expected)


def test_equal_candidates_come_in_the_order_of_their_ids(config: ModelConfig, device: torch.device) -> None:
    """All logits are equal, so every choice is a tie."""
    model = random_model(config).to(device)
    with torch.no_grad():
        model.embedding.weight.zero_()
    [hypotheses] = beam_decode(model, [[5, config.eos_id]], 2, 4, alternatives=4)
    # Step one: 0, 1, eos and 3 lead, so that eos finishes and 0, 1, 3, 4 live. Step two: four of 0's.
    assert [ids for ids, _ in hypotheses] == [[config.eos_id], [0, config.eos_id], [0, 0], [0, 1]]
    assert greedy_decode(model, [[5, config.eos_id]], 2) == [[0, 0]]


def test_a_prompt_is_what_the_decoder_read_before(model: Transformer, config: ModelConfig) -> None:
    prompt = [40, 41]
    for source in _sources(config, 4):
        ids = greedy_decode(model, [source], 10, prompt)[0]
        each = _logprobs(model, source, torch.tensor([[*prompt, *ids]], device=model.embedding.weight.device))[0]
        assert each.argmax(-1).tolist()[len(prompt) :] == ids
        [[best]] = beam_decode(model, [source], 10, 1, prompt=prompt)
        assert best.ids == ids
        own = each[len(prompt) :].gather(-1, torch.tensor(ids, device=each.device)[:, None]).sum().item()
        assert best.score == pytest.approx(own / (len(prompt) + len(ids)), abs=1e-4)
