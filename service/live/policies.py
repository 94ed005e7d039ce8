"""Policies: how much of a translation is committed while its source still grows."""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Final, Literal, NamedTuple

PolicyName = Literal["align_att", "local_agreement", "wait_k", "sentence"]
Latency = Literal["low", "balanced", "quality"]


class Policy(NamedTuple):
    """A policy and its parameters; `words` are words of the source.

    `align_att` (AlignAtt) commits the target words that have at most `share` of their attention on the last `words`
    words (Papi et al. 2023, who compare only the largest weight). `local_agreement` commits what `words` hypotheses in
    a row have in common (Liu et al. 2020). `wait_k` keeps the translation `words` words behind the source (Ma et al.
    2019). `sentence` commits finished sentences only.
    """

    name: PolicyName
    words: int = 0
    share: float = 0.0


DEFAULTS: Final[Mapping[PolicyName, Policy]] = {
    "align_att": Policy("align_att", 1, 0.2),
    "local_agreement": Policy("local_agreement", 2),
    "wait_k": Policy("wait_k", 3),
    "sentence": Policy("sentence"),
}
PRESETS: Final[Mapping[Latency, Policy]] = {
    "low": Policy("align_att", 1, 0.4),
    "balanced": Policy("align_att", 1, 0.15),
    "quality": Policy("align_att", 2, 0.2),
}
"""The measured curve is in docs/live.md."""
WITHOUT_ATTENTION: Final[Mapping[Latency, Policy]] = {
    "low": Policy("local_agreement", 2),
    "balanced": Policy("local_agreement", 2),
    "quality": Policy("local_agreement", 3),
}
"""Policies of a route through two models, where no attention leads from the translation to the source."""


class Token(NamedTuple):
    """A token of a hypothesis, behind what is committed."""

    token_id: int
    text: str
    """The text that it completes."""
    place: int | None = None
    """The first character of the sentence that it comes from."""
    attention: Sequence[float] = ()
    """Its weights at `State.places`; empty for a token of a given term, which has its place."""
    term: int | None = None
    holds_text: bool = False
    """True if text up to here is still held back, because it may change with the next token."""


class Hypothesis(NamedTuple):
    """A translation of a sentence behind its committed beginning."""

    tokens: Sequence[Token] = ()
    places: Sequence[int | None] = ()
    """The first character of each source token, which attention belongs to; None for what has none."""


class State(NamedTuple):
    """The facts that a policy decides by."""

    hypothesis: Hypothesis
    earlier: Sequence[Sequence[Token]]
    """The hypotheses of earlier updates behind the same text, the latest first."""
    word_starts: Sequence[int]
    """Positions of the words of the sentence so far; of characters in a script without spaces."""
    committed_words: int
    """The number of words that the committed text has."""


def _align_att(policy: Policy, state: State) -> int:
    if policy.words == 0:
        return len(state.hypothesis.tokens)
    if len(state.word_starts) <= policy.words:
        return 0
    frontier, places = state.word_starts[-policy.words], state.hypothesis.places
    known = [number for number, place in enumerate(places) if place is not None]
    last = [number for number in known if (places[number] or 0) >= frontier]

    def is_behind(token: Token) -> bool:
        if not token.attention:
            return token.place is None or token.place < frontier
        weights = token.attention
        return sum(weights[each] for each in last) <= policy.share * sum(weights[each] for each in known)

    return sum(1 for _ in takewhile(is_behind, state.hypothesis.tokens))


def _local_agreement(policy: Policy, state: State) -> int:
    others = state.earlier[: policy.words - 1]
    if len(others) < policy.words - 1:
        return 0
    ids = [[token.token_id for token in tokens] for tokens in (state.hypothesis.tokens, *others)]
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*ids, strict=False)))


def _wait_k(policy: Policy, state: State) -> int:
    room = len(state.word_starts) - policy.words - state.committed_words
    begun = 0
    for number, token in enumerate(state.hypothesis.tokens):
        begun += token.text[:1].isspace() or number == 0
        if begun > room:
            return number
    return len(state.hypothesis.tokens)


RULES: Final[Mapping[PolicyName, Callable[[Policy, State], int]]] = {
    "align_att": _align_att,
    "local_agreement": _local_agreement,
    "wait_k": _wait_k,
}
"""For each policy but `sentence`, a function that returns how many tokens of a hypothesis may be committed."""
KEPT_HYPOTHESES: Final = 4
"""Earlier hypotheses that are kept for `local_agreement`; more must not be requested."""
