"""The selection of extensions from a step's scores; the only place in the engine where tokens are chosen."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any

import torch
from torch import Tensor

from model.beam_search import Choice, Extension
from model.kernels import best_extensions
from model.sampling import SamplingParameters, forbid_repeated_ngrams, noise_states, penalise_repetition, sample
from model.topk import Extensions
from service.engine.batching import StepBatch, StepScores
from service.engine.forced_terms import attended_term, first_token, started_term
from service.engine.generation_request import GenerationRequest
from service.engine.sequences.rows import UNCONSTRAINED, Row

Steps = list[list[Extension]]
"""A request's extensions, one step after the other: those of the first row, then of the second, ..."""


def select_tokens(groups: Sequence[Sequence[Row]], batch: StepBatch, scores: StepScores) -> list[Steps]:
    """Return the extensions of the rows of `groups`, the first of the batch: one step, or all steps of a beam."""
    rows = [row for group in groups for row in group]
    chosen = iter(_select_for_rows(rows, batch, scores))
    ranked = _ranked_steps(scores.extensions)
    steps = []
    for group in groups:
        own = [next(chosen) for _ in group]
        steps.append(next(ranked) if group[-1].is_ranked else [list(chain.from_iterable(own))])
    return steps


def _ranked_steps(extensions: Extensions | None) -> Iterator[Steps]:
    """Yield the steps of one beam after the other, the best extensions first; impossible ones are left out."""
    if extensions is None:
        return
    for beam in zip(*(each.transpose(0, 1).tolist() for each in extensions), strict=True):
        yield [
            [
                Extension(parent, Choice(token, logprob), total)
                for parent, token, logprob, total in zip(*step, strict=True)
                if total != -math.inf
            ]
            for step in zip(*beam, strict=True)
        ]


def _select_for_rows(rows: Sequence[Row], batch: StepBatch, scores: StepScores) -> list[list[Extension]]:
    """Return each row's `num_extensions` extensions, the best first; fewer where the vocabulary has no more.

    Nothing for rows whose beams are ranked. Of another beam's rows, which stand together, only those that are among its
    `num_extensions` best in all of them.
    Log-probabilities are of the distribution that the constraints leave, before temperature, top-k and top-p.
    A token of a given term is not chosen (`engine.forced_terms`): it is its row's only extension.
    """
    chosen: list[list[Extension]] = [[] for _ in rows]
    given = _forced_by_terms(rows, batch, scores)
    with_logits = {*batch.outputs.logits, *given}
    greedy = [number for number, row in enumerate(rows) if row.num_extensions == 1 and number not in with_logits]
    if greedy:
        tokens, logprobs = scores.tokens[0].tolist(), scores.logprobs[0].tolist()
        for number in greedy:
            choice = Choice(tokens[number], logprobs[number])
            chosen[number] = [Extension(rows[number].parent, choice, choice.logprob)]
    places = [place for place, number in enumerate(batch.outputs.logits) if number not in given]
    if places:
        logits = scores.logits if len(places) == len(batch.outputs.logits) else scores.logits[places]
        numbers = [batch.outputs.logits[place] for place in places]
        for number, extensions in zip(numbers, _select_from_logits([rows[n] for n in numbers], logits), strict=True):
            chosen[number] = extensions
    for number, extension in given.items():
        chosen[number] = [extension]
    _add_attention(rows, batch, scores, chosen)
    return chosen


def _add_attention(rows: Sequence[Row], batch: StepBatch, scores: StepScores, chosen: list[list[Extension]]) -> None:
    if scores.alignment is not None:
        for number, weights in zip(batch.outputs.alignment, scores.alignment.tolist(), strict=True):
            chosen[number] = [_with_term(rows[number], each, weights) for each in chosen[number]]
            request = rows[number].request
            if request.inspect.alignment:
                chosen[number] = _with_inspection(
                    chosen[number],
                    alignment=_strongest(request, weights),
                    attention=weights[: len(request.prompt.source_ids)] if request.inspect.attention else (),
                )
    if scores.self_attention is not None:
        for number, layers in zip(batch.outputs.self_attention, scores.self_attention.tolist(), strict=True):
            seen = len(rows[number].ids) + 1
            chosen[number] = _with_inspection(chosen[number], self_attention=[weights[:seen] for weights in layers])


def _with_term(row: Row, extension: Extension, weights: Sequence[float]) -> Extension:
    """Record the term that the model has begun by itself, if it has."""
    choice = extension.choice
    if not row.pending or choice.term is not None:
        return extension
    request = row.request
    term = started_term(
        request.constraints.terms, row.pending, weights[: len(request.prompt.source_ids) - 1], choice.token
    )
    return extension._replace(choice=choice._replace(term=term))


def _forced_by_terms(rows: Sequence[Row], batch: StepBatch, scores: StepScores) -> dict[int, Extension]:
    """Return the extensions, by row, of rows that are in the middle of a term or attend to one."""
    given = {
        number: Extension(row.parent, Choice(row.forced, 0.0, term=row.term), row.total)
        for number, row in enumerate(rows)
        if row.term is not None and row.forced is not None
    }
    if scores.alignment is None:
        return given
    place_of = {number: place for place, number in enumerate(batch.outputs.logits)}
    for place, number in enumerate(batch.outputs.alignment):
        row = rows[number]
        if row.pending:
            weights = scores.alignment[place, : len(row.request.prompt.source_ids) - 1].tolist()
            logits = scores.logits[place_of[number]]
            first = [row.request.constraints.terms[each].ids[0] for each in row.pending]
            behind = (logits.max() - logits[first]).tolist()
            term = attended_term(row.request.constraints.terms, row.pending, weights, behind)
            if term is not None:
                given[number] = Extension(row.parent, first_token(row.request.constraints.terms, term), row.total)
    return given


def _with_inspection(extensions: Sequence[Extension], **notes: Any) -> list[Extension]:
    """Return the extensions with some fields of their inspections replaced."""
    annotated = []
    for extension in extensions:
        inspection = extension.choice.inspection._replace(**notes)
        annotated.append(extension._replace(choice=extension.choice._replace(inspection=inspection)))
    return annotated


def _strongest(request: GenerationRequest, weights: Sequence[float]) -> tuple[int, float]:
    """Return the position with the largest weight, except eos, where attention without a better place rests, and that
    weight."""
    position = max(range(max(len(request.prompt.source_ids) - 1, 1)), key=lambda each: weights[each])
    return position, weights[position]


@torch.inference_mode()
def _select_from_logits(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    _constrain(rows, logits)
    groups: dict[_Selector, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(_selector(row), []).append(number)
    chosen: list[list[Extension]] = [[] for _ in rows]
    for rule, numbers in groups.items():
        # Most often all of them: then nothing is copied.
        own = logits if len(numbers) == len(rows) else logits[numbers]
        extensions = rule([rows[number] for number in numbers], own)
        for number, each in zip(numbers, extensions, strict=True):
            chosen[number] = each
    _add_candidates(rows, logits, chosen)
    return chosen


_Selector = Callable[[Sequence[Row], Tensor], list[list[Extension]]]


def _selector(row: Row) -> _Selector:
    if row.forced is not None:
        return _select_forced
    if row.request.search.beam.size > 1:
        return _select_beam
    return _select_sampled if row.request.search.sampling.temperature > 0 else _select_greedy


def _select_greedy(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    best = _top_k_per_row(logits, 1)
    return _as_extensions(rows, best.tokens[:, 0], best.logprobs[:, 0])


def _select_sampled(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    return _as_extensions(rows, *sample(logits, _sampling_parameters(rows)))


def _select_forced(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    # PyTorch's log-probabilities differ in their last bits with the kind of processor and, of large vocabularies, with
    # the threads and the number of rows; the operator's do not.
    best = _top_k_per_row(logits, 1)
    tokens = torch.tensor([row.forced for row in rows])
    differences = logits.gather(-1, tokens[:, None]) - logits.gather(-1, best.tokens)
    return _as_extensions(rows, tokens, (differences + best.logprobs).squeeze(-1))


def _select_beam(rows: Sequence[Row], logits: Tensor) -> list[list[Extension]]:
    """Return a beam's extensions, the best by their sums."""
    totals = torch.tensor([row.total for row in rows])
    sizes = [len(list(beam)) for _, beam in groupby(rows, key=lambda row: row.source_slot)]
    best = best_extensions(logits, totals, sizes, max(row.num_extensions for row in rows))
    chosen: list[list[Extension]] = [[] for _ in rows]
    first = 0
    for size, *beam in zip(sizes, *(each.tolist() for each in best), strict=True):
        for row, token, logprob, total in islice(zip(*beam, strict=True), rows[first].num_extensions):
            if total != -math.inf:
                chosen[first + row].append(Extension(rows[first + row].parent, Choice(token, logprob), total))
        first += size
    return chosen


def _top_k_per_row(logits: Tensor, count: int) -> Extensions:
    """Return the best of each row."""
    return best_extensions(logits, torch.zeros(len(logits)), [1] * len(logits), count)


def _as_extensions(rows: Sequence[Row], tokens: Tensor, logprobs: Tensor) -> list[list[Extension]]:
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
    asking = [number for number, row in enumerate(rows) if row.request.inspect.candidates]
    if not asking:
        return
    count = max(rows[number].request.inspect.candidates for number in asking)
    best = _top_k_per_row(logits[asking], count)
    for number, *ranked in zip(asking, best.tokens.tolist(), best.logprobs.tolist(), strict=True):
        possible = [(token, logprob) for token, logprob in zip(*ranked, strict=True) if logprob > -math.inf]
        candidates = possible[: rows[number].request.inspect.candidates]
        chosen[number] = _with_inspection(chosen[number], candidates=candidates)


def _sampling_parameters(rows: Sequence[Row]) -> SamplingParameters:
    options = [row.request.search.sampling for row in rows]
    seeds, positions = torch.tensor([[option.seed for option in options], [len(row.ids) for row in rows]])
    return SamplingParameters(
        temperature=torch.tensor([option.temperature for option in options]),
        top_k=torch.tensor([option.top_k for option in options]),
        top_p=torch.tensor([option.top_p for option in options]),
        noise=noise_states(seeds, positions),
    )
