"""How many tokens each policy lets be committed."""

import pytest

from service.live.policies import RULES, Hypothesis, Policy, State, Token


def _tokens(ids: list[int], attention: list[list[float]] | None = None) -> list[Token]:
    weights = attention or [[]] * len(ids)
    return [Token(number, f" {number}", attention=own) for number, own in zip(ids, weights, strict=True)]


def _state(tokens: list[Token], words: int, earlier: list[list[Token]] | None = None, committed: int = 0) -> State:
    starts = [5 * word for word in range(words)]
    # The last source token is the end of the sentence, which is nowhere.
    return State(Hypothesis(tokens, [*starts, None]), earlier or [], starts, committed)


@pytest.mark.parametrize(
    ("words", "share", "count"), [(0, 0.0, 3), (1, 0.2, 1), (1, 0.5, 2), (2, 0.2, 0), (2, 0.95, 3)]
)
def test_attention_to_the_last_words_waits(words: int, share: float, count: int) -> None:
    """Weights over three words and the end of the sentence, which does not count."""
    tokens = _tokens([1, 2, 3], [[0.3, 0.2, 0.1, 0.4], [0.1, 0.3, 0.2, 0.4], [0.1, 0.1, 0.7, 0.1]])
    assert RULES["align_att"](Policy("align_att", words, share), _state(tokens, 3)) == count


def test_nothing_is_committed_of_a_first_word() -> None:
    assert RULES["align_att"](Policy("align_att", 1, 1.0), _state(_tokens([1], [[1.0, 0.0]]), 1)) == 0


def test_a_given_term_has_its_own_place() -> None:
    tokens = [Token(1, " a", place=0, term=0), Token(2, " b", place=5, term=1)]
    assert RULES["align_att"](Policy("align_att", 1, 0.2), _state(tokens, 2)) == 1


def test_hypotheses_agree() -> None:
    state = _state(_tokens([1, 2, 3, 4]), 4, [_tokens([1, 2, 5]), _tokens([1, 6])])
    rule = RULES["local_agreement"]
    assert [rule(Policy("local_agreement", words), state) for words in (2, 3, 4)] == [2, 1, 0]


@pytest.mark.parametrize(("words", "committed", "count"), [(1, 0, 2), (2, 0, 1), (1, 2, 0), (9, 0, 0)])
def test_wait_k_stays_behind(words: int, committed: int, count: int) -> None:
    state = _state(_tokens([1, 2, 3]), 3, committed=committed)
    assert RULES["wait_k"](Policy("wait_k", words), state) == count
