"""Selection of tokens from made-up scores."""

import math
import shutil

import pytest
import torch

from model.beam_search import Extension
from service.engine.batching import StepScores, extensions_of, step_batch
from service.engine.generation_request import Beam, Constraints, Sampling
from service.engine.sequences.rows import Row
from service.engine.token_selection import Steps, select_tokens
from tests.generation_requests import generation_request


def _choose(rows: list[Row], logits: torch.Tensor) -> list[list[Extension]]:
    """Return the extensions of each row, each a request of its own."""
    return [extensions for [extensions] in _steps([[row] for row in rows], logits)]


def _steps(groups: list[list[Row]], logits: torch.Tensor) -> list[Steps]:
    best = logits.log_softmax(-1).max(-1)
    batch = step_batch(groups, [], bos_id=1)
    alignment = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])[: len(batch.outputs.alignment)]
    looking = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.25, 0.75], [0.5, 0.5]]])[: len(batch.outputs.self_attention)]
    own, extensions = logits[batch.outputs.logits], extensions_of(batch, logits[batch.beam_rows])
    scores = StepScores(best.indices[None], best.values[None], own, alignment, looking, extensions)
    return select_tokens(groups, batch, scores)


def _beam_row(slot: int, parent: int, total: float, beam: int, *, is_ranked: bool) -> Row:
    request = generation_request([5, 2], 9, beam=Beam(beam))
    return Row(request, slot, slot - parent, [7] * 3, parent, total, 2 * beam, is_ranked=is_ranked)


def _ids(extensions: list[list[Extension]]) -> list[list[int]]:
    return [[extension.choice.token for extension in each] for each in extensions]


def test_each_row_is_chosen_by_its_own_rule() -> None:
    logits = torch.tensor([0.0, 3.0, 2.0, 1.0]).repeat(5, 1)
    plain = generation_request([5, 2], 9)
    rows = [
        Row(plain, 0, 0, []),
        Row(plain, 1, 1, [], num_extensions=0, forced=2),
        Row(plain, 2, 2, [], forced=2),
        Row(generation_request([5, 2], 9, Sampling(1.0, top_k=1)), 3, 3, []),
        Row(generation_request([5, 2], 9, constraints=Constraints(no_repeat_ngram_size=1)), 4, 4, [1]),
    ]
    chosen = _choose(rows, logits)
    assert _ids(chosen) == [[1], [], [2], [1], [2]]
    assert chosen[2][0].choice.logprob == pytest.approx(logits[0].log_softmax(-1)[2].item())
    assert chosen[4][0].choice.logprob > chosen[2][0].choice.logprob, "of what the constraint leaves"


@pytest.mark.parametrize("is_ranked", [True, False])
def test_a_beam_gets_the_best_of_all_its_rows_and_nobody_else_s(*, is_ranked: bool) -> None:
    logits = torch.tensor([[0.0, 4.0, 1.0, 2.0], [3.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 1.0]])
    groups = [
        [_beam_row(slot, slot, slot - 2.0, beam=2, is_ranked=is_ranked) for slot in range(2)],
        [_beam_row(2, 0, 0.0, beam=2, is_ranked=is_ranked)],
    ]
    [first], [second] = _steps(groups, logits)
    expected = logits.log_softmax(-1) + torch.tensor([[-2.0], [-1.0], [0.0]])
    sums = {(extension.parent, extension.choice.token): extension.total for extension in first}
    assert sums == pytest.approx({place: expected[place].item() for place in [(0, 1), (1, 0), (1, 1), (1, 2)]})
    assert _ids([second]) == [[0, 3, 1, 2]]


def test_log_probabilities_are_those_of_the_model() -> None:
    """Temperature and top-k do not change the reported log-probabilities."""
    logits = torch.tensor([0.0, 3.0, 2.0, 1.0]).repeat(20, 1)
    requests = [generation_request([5, 2], 9, Sampling(2.0, top_k=2, seed=seed)) for seed in range(20)]
    chosen = [extension.choice for [extension] in _choose([Row(each, 0, 0, []) for each in requests], logits)]
    assert {choice.token for choice in chosen} == {1, 2}
    expected = logits[0].log_softmax(-1)
    for choice in chosen:
        assert choice.logprob == pytest.approx(expected[choice.token].item())


@pytest.mark.parametrize("threads", [1, 3])
def test_a_row_has_the_same_bits_alone_and_among_others(threads: int) -> None:
    """A large vocabulary is among the cases: PyTorch gives its sums several threads only for a single row."""
    if shutil.which("c++") is None:
        pytest.skip("without the C++ operators rows are equal but for rounding")
    penalised = generation_request([5, 2], 9, constraints=Constraints(repetition_penalty=1.2))
    sampled = generation_request([5, 2], 9, Sampling(1.0, top_k=5, seed=3))
    rows = [Row(penalised, slot, slot, [7]) for slot in range(32)]
    rows += [Row(sampled, 32, 32, [7]), Row(sampled, 33, 33, [8]), Row(penalised, 34, 34, [7], forced=9)]
    logits = torch.randn(len(rows), 131_072, generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = _choose(rows, logits.clone())
        alone = [_choose([row], logits[[number]]) for number, row in enumerate(rows)]
    finally:
        torch.set_num_threads(before)
    assert [[each] for each in together] == alone


@pytest.mark.parametrize("is_ranked", [True, False])
def test_equal_sums_go_to_the_earlier_parent_and_the_lower_id(*, is_ranked: bool) -> None:
    rows = [_beam_row(slot, slot, -1.0, beam=3, is_ranked=is_ranked) for slot in range(2)]
    [[extensions]] = _steps([rows], torch.zeros(2, 4))
    assert [(each.parent, each.choice.token) for each in extensions] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]


def test_candidates_leave_out_what_is_impossible() -> None:
    request = generation_request([5, 2], 9, constraints=Constraints(no_repeat_ngram_size=1), candidates=3)
    [[extension]] = _choose([Row(request, 0, 0, [1, 3])], torch.tensor([[0.0, 3.0, 2.0, 1.0]]))
    assert [token for token, _ in extension.choice.inspection.candidates] == [2, 0]
    assert all(logprob > -math.inf for _, logprob in extension.choice.inspection.candidates)


def test_the_strongest_place_of_the_source_is_never_its_end() -> None:
    request = generation_request([5, 6, 2], 9, alignment=True)
    beam = generation_request([5, 6, 2], 9, beam=Beam(2), alignment=True)
    rows = [
        Row(request, 0, 0, []),
        Row(beam, 1, 1, [], num_extensions=4),
        Row(request, 3, 3, [], num_extensions=0, forced=3),
    ]
    first, second, third = _choose(rows, torch.zeros(3, 4))
    [(position, weight)] = [extension.choice.inspection.alignment or (-1, 0.0) for extension in first]
    assert position == 1
    assert weight == pytest.approx(0.2)
    assert {
        extension.choice.inspection.alignment[0] for extension in second if extension.choice.inspection.alignment
    } == {0}
    assert not third


def test_attention_to_the_row_s_own_source_is_reported_if_requested() -> None:
    short = generation_request([5, 2], 9, alignment=True, attention=True)
    rows = [Row(short, 0, 0, []), Row(generation_request([5, 6, 2], 9, alignment=True), 1, 1, [])]
    [[first], [second]] = _choose(rows, torch.zeros(2, 4))
    assert first.choice.inspection.attention == pytest.approx([0.1, 0.2])
    assert not second.choice.inspection.attention


def test_self_attention_to_the_row_s_own_text_is_reported_if_requested() -> None:
    asking, silent = generation_request([5, 2], 9, self_attention=True), generation_request([5, 2], 9)
    rows = [
        Row(asking, 0, 0, [], num_extensions=0, forced=3),
        Row(asking, 0, 0, []),
        Row(silent, 1, 1, [7]),
        Row(asking, 2, 2, [8]),
    ]
    none, [first], [second], [third] = _choose(rows, torch.zeros(4, 4))
    assert not none
    assert first.choice.inspection.self_attention == [[1.0], [1.0]]
    assert not second.choice.inspection.self_attention
    assert third.choice.inspection.self_attention == [[0.25, 0.75], [0.5, 0.5]]
