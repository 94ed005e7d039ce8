"""Rules against repetition, by hand and against transformers' formulas written down again."""

import math
import random

import pytest
import torch

from model.sampling import forbid_repeated_ngrams, penalise_repetition, repeating_tokens


def test_repetition_is_penalised_once_whatever_the_sign() -> None:
    logits = torch.tensor([[2.0, -2.0, 0.0, 3.0, -3.0]])
    penalise_repetition(logits, [[0, 1, 2, 0]], [2.0])
    assert logits.tolist() == [[1.0, -4.0, 0.0, 3.0, -3.0]]


def test_a_penalty_below_one_encourages() -> None:
    logits = torch.tensor([[2.0, -2.0]])
    penalise_repetition(logits, [[0, 1]], [0.5])
    assert logits.tolist() == [[4.0, -1.0]]


def test_each_row_has_its_own_rules() -> None:
    logits = torch.ones(4, 3)
    histories = [[0], [0], [], [1, 2, 1]]
    penalise_repetition(logits, histories, [1.0, 2.0, 2.0, 4.0])
    forbid_repeated_ngrams(logits, histories, [1, 0, 1, 2])
    assert logits.tolist() == [[-math.inf, 1, 1], [0.5, 1, 1], [1, 1, 1], [1, 0.25, -math.inf]]


@pytest.mark.parametrize(
    ("ids", "size", "expected"),
    [
        ([5, 6, 5], 2, [6]),
        ([5, 6, 5, 7, 5], 2, [6, 7]),
        ([5, 6, 7, 5, 6], 3, [7]),
        ([5, 6, 7, 5], 3, []),
        ([5, 5], 1, [5]),
        ([5, 5, 5], 3, [5]),
        ([5], 3, []),
        ([], 1, []),
        ([], 2, []),
    ],
)
def test_what_would_repeat(ids: list[int], size: int, expected: list[int]) -> None:
    assert repeating_tokens(ids, size) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_no_ngram_comes_twice_in_random_text(size: int) -> None:
    """A vocabulary of six runs out of n-grams; until then everything that is allowed is new."""
    generator = random.Random(size)
    ids: list[int] = []
    while len(ids) < 200:
        logits = torch.zeros(1, 6)
        forbid_repeated_ngrams(logits, [ids], [size])
        allowed = [token for token, logit in enumerate(logits[0].tolist()) if logit != -math.inf]
        if not allowed:
            break
        ids.append(generator.choice(allowed))
    ngrams = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
    assert len(ngrams) == len(set(ngrams))
    assert len(ids) >= 6
