"""The engine's continuous batch gives what offline decoding gives, however requests arrive."""

from collections.abc import Callable

import pytest
import torch

from model.config import ModelConfig
from model.decoding import beam_decode, greedy_decode
from model.sampling import SamplingParameters, noise_states, sample
from service.engine.generation_request import Beam, Sampling
from service.engine.messages import Cancel, Command, Submit
from tests.conftest import random_model
from tests.generation_requests import changed, generation_request
from tests.parity.engine import Run, sources


@pytest.mark.parametrize("slots", [1, 5, 64])
def test_greedy(run: Run, config: ModelConfig, slots: int) -> None:
    texts = sources(32)
    expected = greedy_decode(random_model(config), texts, 30)
    assert len({len(ids) for ids in expected}) > 3, "rows that all end together test nothing"
    commands: list[Command] = [Submit(i, generation_request(source, 30), 0.0) for i, source in enumerate(texts)]
    arrivals = run(config, commands, slots=slots, seed=slots)
    assert [arrivals.tokens[i] for i in range(32)] == expected


def test_cancelled_neighbours_change_nothing(run: Run, config: ModelConfig) -> None:
    texts = sources(40)
    expected = greedy_decode(random_model(config), texts, 30)
    commands: list[Command] = []
    for i, source in enumerate(texts):
        commands.append(Submit(i, generation_request(source, 30), 0.0))
        if i % 3 == 2:
            commands.append(Cancel(i - 1))
    arrivals = run(config, commands, slots=8, seed=1)
    survivors = [i for i in range(40) if i % 3 != 1 or i == 39]
    assert [arrivals.tokens[i] for i in survivors] == [expected[i] for i in survivors]


def test_a_seeded_sample_does_not_depend_on_its_neighbours(run: Run, config: ModelConfig) -> None:
    sampling = [Sampling(temperature=1.5, top_k=20, top_p=0.95, seed=i % 5) for i in range(30)]
    requests = [generation_request(s, 20, o) for s, o in zip(sources(30), sampling, strict=True)]
    together = run(config, [Submit(i, r, 0.0) for i, r in enumerate(requests)], slots=8, seed=2)
    for i, request in enumerate(requests):
        alone = run(config, [Submit(i, request, 0.0)], slots=1, seed=3)
        assert together.tokens[i] == alone.tokens[i]
    assert len({tuple(ids) for ids in together.tokens.values()}) > 20


def test_each_position_draws_its_own_number(run: Run, config: ModelConfig) -> None:
    """The engine's sample is `sample` over the full forward pass with `noise_states` of its seed and positions."""
    model, source = random_model(config), sources(1)[0]
    request = generation_request(source, 12, Sampling(temperature=2.0, seed=11))
    ids = run(config, [Submit(0, request, 0.0)], slots=1, seed=0).tokens[0]
    with torch.inference_mode():
        logits = model(torch.tensor([source]), torch.tensor([ids]))[0]
    noise = noise_states(torch.full((len(ids),), 11), torch.arange(len(ids)))
    options = SamplingParameters(torch.full((len(ids),), 2.0), torch.zeros_like(noise), torch.ones(len(ids)), noise)
    assert sample(logits, options).tokens.tolist() == ids


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_forced_prefix_continues_as_if_never_interrupted(run: Run, config: ModelConfig, every: int) -> None:
    """Forced prefixes let a stream survive the death of its engine, behind each token in turn or some of them."""
    source = sources(1)[0]
    for number, sampling in enumerate((Sampling(), Sampling(temperature=1.0, seed=3))):
        whole = run(config, [Submit(0, generation_request(source, 20, sampling), 0.0)], slots=1, seed=0)
        for cut in range(1 + number % every, len(whole.tokens[0]), every):
            sent = whole.tokens[0][:cut]
            request = generation_request(source, 20, sampling, forced_ids=sent, sent_ids=sent)
            rest = run(config, [Submit(0, request, 0.0)], slots=1, seed=0)
            assert rest.tokens[0] == whole.tokens[0][cut:]
            assert rest.logprobs[0] == pytest.approx(whole.logprobs[0][cut:], abs=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_prompt_is_read_and_not_reported(run: Run, config: ModelConfig, beam_size: int) -> None:
    """Some models read the target language in the decoder; such prompts run alone and beside requests without one."""
    prompt = [40, 41]
    some = sources(6)
    requests = [
        generation_request(source, 20, beam=Beam(beam_size, alternatives=beam_size - 1), decoder_ids=prompt)
        for source in some
    ]
    others = [generation_request(source, 20) for source in some]
    commands = [Submit(i, request, 0.0) for i, request in enumerate([*requests, *others])]
    arrivals = run(config, list(commands), slots=8, seed=2)
    model = random_model(config)
    for i, source in enumerate(some):
        expected = beam_decode(model, [source], 20, beam_size, alternatives=beam_size, prompt=prompt)[0]
        assert arrivals.tokens[i] == expected[0].ids
        assert [[token.token_id for token in other.tokens] for other in arrivals.reports[i][-1].alternatives] == [
            each.ids for each in expected[1:]
        ]
        sent = arrivals.tokens[i][:-1][:2]
        forced = sent if beam_size == 1 else []
        again = changed(requests[i], sent_ids=sent, forced_ids=forced)
        assert run(config, [Submit(0, again, 0.0)], slots=8, seed=0).tokens[0] == arrivals.tokens[i][len(sent) :]


def test_a_draft_changes_nothing_but_the_number_of_steps(run: Run, config: ModelConfig) -> None:
    """A right, a wrong, half a right and a far too long draft, beside one another and behind forced tokens."""
    texts = sources(16)
    expected = greedy_decode(random_model(config), texts, 30)
    drafts: list[Callable[[list[int]], list[int]]] = [
        lambda ids: ids,
        lambda ids: [40, *ids],
        lambda ids: [*ids[: len(ids) // 2], 41],
        lambda ids: ids * 10,
    ]
    requests = [
        generation_request(
            source, 30, draft=drafts[i % 4](ids[i % 3 :]), forced_ids=ids[: i % 3], sent_ids=ids[: i % 3]
        )
        for i, (source, ids) in enumerate(zip(texts, expected, strict=True))
        if len(ids) > 2
    ]
    arrivals = run(config, [Submit(i, request, 0.0) for i, request in enumerate(requests)], slots=8, seed=1)
    rests = [ids[i % 3 :] for i, ids in enumerate(expected) if len(ids) > 2]
    assert [arrivals.tokens[i] for i in range(len(requests))] == rests
    alone = run(config, [Submit(0, requests[0], 0.0)], slots=1, seed=0)
    assert len(set(alone.moments[0])) == 1


def test_beams_ignore_drafts(run: Run, config: ModelConfig) -> None:
    source = sources(1)[0]
    requests = [generation_request(source, 20, beam=Beam(3), draft=draft) for draft in ([], [40, 41])]
    arrivals = run(config, [Submit(i, request, 0.0) for i, request in enumerate(requests)], slots=8, seed=1)
    assert arrivals.tokens[0] == arrivals.tokens[1]
