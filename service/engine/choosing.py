"""From a step's scores to what each row goes on with; the only place in the engine where tokens are chosen."""

import math
from collections.abc import Callable, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from model.constraints import forbid_repeated_ngrams, penalise_repetition
from model.kernels import best_extensions
from model.sampling import SamplingParameters, noise_states, sample
from model.search import Choice, Extension
from service.engine.batching import StepBatch, StepScores
from service.engine.request import GenerationRequest
from service.engine.terms import begun, looked_at
from service.engine.writers import UNCONSTRAINED, Row, beginning


def choose(rows: Sequence[Row], batch: StepBatch, scores: StepScores) -> list[list[Extension]]:
    """Each row's `wanted` extensions, the best first; fewer where the vocabulary has no more.

    Where the runner has run ahead, each row's tokens one after the other.

    Of a beam's rows, which stand together, only those that are among its `wanted` best in all of them.
    Log-probabilities are of the distribution that the constraints leave, before temperature, top-k and top-p.
    What belongs to a given term is not chosen (`engine.terms`): it is all that its row goes on with.
    """
    chosen: list[list[Extension]] = [[] for _ in rows]
    given = _given(rows, batch, scores)
    with_logits = {*batch.logit_rows, *given}
    for number, best in enumerate(zip(scores.tokens.T.tolist(), scores.logprobs.T.tolist(), strict=True)):
        if rows[number].wanted and number not in with_logits:
            steps = zip(*best, strict=True)
            chosen[number] = [Extension(rows[number].parent, Choice(*choice), choice[1]) for choice in steps]
    places = [place for place, number in enumerate(batch.logit_rows) if number not in given]
    if places:
        logits = scores.logits if len(places) == len(batch.logit_rows) else scores.logits[places]
        numbers = [batch.logit_rows[place] for place in places]
        for number, extensions in zip(numbers, _choose_from_logits([rows[n] for n in numbers], logits), strict=True):
            chosen[number] = extensions
    for number, extension in given.items():
        chosen[number] = [extension]
    _tell_attention(rows, batch, scores, chosen)
    return chosen


def _tell_attention(rows: Sequence[Row], batch: StepBatch, scores: StepScores, chosen: list[list[Extension]]) -> None:
    if scores.alignment is not None:
        for number, weights in zip(batch.alignment_rows, scores.alignment.tolist(), strict=True):
            chosen[number] = [_with_term(rows[number], each, weights) for each in chosen[number]]
            request = rows[number].request
            if request.alignment:
                chosen[number] = _annotated(
                    chosen[number],
                    alignment=_strongest(request, weights),
                    attention=weights[: len(request.source_ids)] if request.attention else (),
                )
    if scores.self_attention is not None:
        for number, layers in zip(batch.self_attention_rows, scores.self_attention.tolist(), strict=True):
            seen = len(rows[number].ids) + 1
            chosen[number] = _annotated(chosen[number], self_attention=[weights[:seen] for weights in layers])


def _with_term(row: Row, extension: Extension, weights: Sequence[float]) -> Extension:
    """Where the model begins a term by itself, it says so."""
    choice = extension.choice
    if not row.pending or choice.term is not None:
        return extension
    term = begun(row.request.terms, row.pending, weights[: len(row.request.source_ids) - 1], choice.token)
    return extension._replace(choice=choice._replace(term=term))


def _given(rows: Sequence[Row], batch: StepBatch, scores: StepScores) -> dict[int, Extension]:
    """What rows go on with that are in the middle of a term, or look at one; by their numbers."""
    given = {
        number: Extension(row.parent, Choice(row.forced, 0.0, term=row.term), row.total)
        for number, row in enumerate(rows)
        if row.term is not None and row.forced is not None
    }
    if scores.alignment is None:
        return given
    place_of = {number: place for place, number in enumerate(batch.logit_rows)}
    for place, number in enumerate(batch.alignment_rows):
        row = rows[number]
        if row.pending:
            weights = scores.alignment[place, : len(row.request.source_ids) - 1].tolist()
            logits = scores.logits[place_of[number]]
            first = [row.request.terms[each].ids[0] for each in row.pending]
            behind = (logits.max() - logits[first]).tolist()
            term = looked_at(row.request.terms, row.pending, weights, behind)
            if term is not None:
                given[number] = Extension(row.parent, beginning(row.request, term), row.total)
    return given


def _annotated(extensions: Sequence[Extension], **notes: Any) -> list[Extension]:
    """With what is known of their place."""
    return [extension._replace(choice=extension.choice._replace(**notes)) for extension in extensions]


def _strongest(request: GenerationRequest, weights: Sequence[float]) -> tuple[int, float]:
    """Where most of the attention is, but for eos, which attention without a better place rests on."""
    position = max(range(max(len(request.source_ids) - 1, 1)), key=lambda each: weights[each])
    return position, weights[position]


@torch.inference_mode()
def _choose_from_logits(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    _constrain(rows, logits)
    groups: dict[_Rule, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(_rule(row), []).append(number)
    chosen: list[list[Extension]] = [[] for _ in rows]
    for rule, numbers in groups.items():
        # Most often all of them: then nothing is copied.
        own = logits if len(numbers) == len(rows) else logits[numbers]
        extensions = rule([rows[number] for number in numbers], own)
        for number, each in zip(numbers, extensions, strict=True):
            chosen[number] = each
    _add_candidates(rows, logits, chosen)
    return chosen


_Rule = Callable[[Sequence[Row], Tensor], list[list[Extension]]]


def _rule(row: Row) -> _Rule:
    if row.forced is not None:
        return _forced
    if row.request.beam.size > 1:
        return _widest
    return _sampled if row.request.sampling.temperature > 0 else _best


def _best(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    _, tokens, logprobs = best_extensions(logits, torch.zeros(len(rows)), 1)
    return _of_each(rows, tokens[:, 0], logprobs[:, 0])


def _sampled(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    return _of_each(rows, *sample(logits, _sampling_parameters(rows)))


def _forced(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    # PyTorch's log-probabilities differ in their last bits with the kind of processor and, of large vocabularies, with
    # the threads and the number of rows; the operator's do not.
    _, best, of_best = best_extensions(logits, torch.zeros(len(rows)), 1)
    tokens = torch.tensor([row.forced for row in rows])
    return _of_each(rows, tokens, (logits.gather(-1, tokens[:, None]) - logits.gather(-1, best) + of_best).squeeze(-1))


def _widest(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    """A beam's: the best by their sums. The `wanted` best of each row hold the `wanted` best of all its beam's rows."""
    starts = torch.tensor([row.total for row in rows])
    totals, ids, own = (each.tolist() for each in best_extensions(logits, starts, max(row.wanted for row in rows)))
    chosen: list[list[Extension]] = [[] for _ in rows]
    for _, beam in groupby(range(len(rows)), key=lambda number: rows[number].source_slot):
        ranked = [each for number in beam for each in zip(totals[number], repeat(number), ids[number], own[number])]
        # Stable: of equal ones the earlier parent's, then the lower token, comes first.
        ranked.sort(key=itemgetter(0), reverse=True)
        for total, number, token, logprob in ranked[: rows[ranked[0][1]].wanted]:
            chosen[number].append(Extension(rows[number].parent, Choice(token, logprob), total))
    return chosen


def _of_each(rows: Sequence[Row], tokens: Tensor, logprobs: Tensor) -> list[list[Extension]]:
    return [
        [Extension(row.parent, Choice(token, logprob), logprob)]
        for row, token, logprob in zip(rows, tokens.tolist(), logprobs.tolist(), strict=True)
    ]


def _constrain(rows: Sequence[Row], logits: Tensor) -> None:
    constraints = [row.request.constraints if row.is_constrained else UNCONSTRAINED for row in rows]
    histories = [row.ids for row in rows]
    penalise_repetition(logits, histories, [each.repetition_penalty for each in constraints])
    forbid_repeated_ngrams(logits, histories, [each.no_repeat_ngram_size for each in constraints])


def _add_candidates(rows: Sequence[Row], logits: Tensor, chosen: list[list[Extension]]) -> None:
    asking = [number for number, row in enumerate(rows) if row.request.top_candidates]
    if not asking:
        return
    count = max(rows[number].request.top_candidates for number in asking)
    values, tokens, _ = best_extensions(logits[asking], torch.zeros(len(asking)), count)
    for number, *ranked in zip(asking, tokens.tolist(), values.tolist(), strict=True):
        possible = [(token, logprob) for token, logprob in zip(*ranked, strict=True) if logprob > -math.inf]
        candidates = possible[: rows[number].request.top_candidates]
        chosen[number] = _annotated(chosen[number], candidates=candidates)


def _sampling_parameters(rows: Sequence[Row]) -> SamplingParameters:
    options = [row.request.sampling for row in rows]
    seeds, positions = torch.tensor([[option.seed for option in options], [len(row.ids) for row in rows]])
    return SamplingParameters(
        temperature=torch.tensor([option.temperature for option in options]),
        top_k=torch.tensor([option.top_k for option in options]),
        top_p=torch.tensor([option.top_p for option in options]),
        noise=noise_states(seeds, positions),
    )
