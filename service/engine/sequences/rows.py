"""The rows of a request in a decoder step, one for each token to read, and the protocol of sequences."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from model.beam_search import Choice, Extension, Path
from service.engine.generation_request import Constraints, GenerationRequest
from service.engine.messages import FinishReason, LiveHypothesis

UNCONSTRAINED: Final = Constraints()


class Row(NamedTuple):
    """A query of the decoder: the possible next tokens of a hypothesis of `ids`."""

    request: GenerationRequest
    slot: int
    source_slot: int
    ids: list[int]
    """The tokens before it, the prompt included, without bos; their number is the row's position."""
    parent: int = 0
    """The hypothesis's rank among those of its request."""
    total: float = 0.0
    """The sum of log-probabilities of `ids`; only beams need it."""
    num_extensions: int = 1
    """The number of extensions that the row needs; 0 if only its K/V are needed."""
    forced: int | None = None
    """The token that must come next, however improbable."""
    term: int | None = None
    """The term that the forced token belongs to, by its number."""
    pending: Sequence[int] = ()
    """The terms that may come next, by their numbers."""
    is_ranked: bool = False
    """True if the beam needs only its best extensions over all rows, not this row's own."""

    @property
    def is_constrained(self) -> bool:
        """True if its logits change before a token is chosen; a forced token is not chosen."""
        return self.forced is None and self.request.constraints.changes_logits

    @property
    def needs_alignment(self) -> bool:
        """True if its cross-attention weights are needed."""
        return self.num_extensions > 0 and (self.request.inspect.alignment or bool(self.pending))

    @property
    def needs_self_attention(self) -> bool:
        """True if self-attention weights were requested."""
        return self.num_extensions > 0 and self.request.inspect.self_attention

    @property
    def needs_logits(self) -> bool:
        """True if the best token alone does not determine how the row goes on."""
        request = self.request
        if self.is_ranked or self.term is not None:
            return False
        return self.num_extensions > 0 and (
            self.forced is not None
            or self.num_extensions > 1
            or request.search.sampling.temperature > 0
            or self.is_constrained
            or request.inspect.candidates > 0
            or bool(self.pending)
        )

    @property
    def steps_ahead(self) -> int:
        """The number of further steps of its beam that only need the best extensions; 0 without a beam."""
        if not self.is_ranked or self.request.inspect.hypotheses:
            return 0
        return self.request.search.max_new_tokens + len(self.request.prompt.decoder_ids) - len(self.ids) - 1


def is_plain(request: GenerationRequest) -> bool:
    """Return True if only the logits and given terms decide how the request's rows go on, and nothing is inspected."""
    return not (request.constraints.changes_logits or request.inspect.weights or request.inspect.candidates)


def prompt_rows(request: GenerationRequest, slot: int) -> list[Row]:
    """Return a row for each token of the prompt; these rows only write K/V."""
    return [
        Row(request, slot, slot, request.prompt.decoder_ids[:i], num_extensions=0)
        for i in range(len(request.prompt.decoder_ids))
    ]


def prefix_rows(request: GenerationRequest, slot: int, extended_from: int) -> list[Row]:
    """Return a row for each token of the forced prefix, all for one step."""
    prompt, forced = request.prompt.decoder_ids, request.constraints.forced_ids
    return [
        Row(request, slot, slot, prompt + forced[:i], num_extensions=int(i >= extended_from), forced=token)
        for i, token in enumerate(forced)
    ]


class SearchDiffers(Exception):
    """A repeated search differs from the tokens already sent: a near tie, in a mode that has them."""


class StepResult(NamedTuple):
    """The tokens that a step has settled, and the reason if the translation has ended."""

    choices: Sequence[Choice]
    finish_reason: FinishReason | None = None
    alternatives: Sequence[Path] = ()
    live: Sequence[LiveHypothesis] = ()
    """The live hypotheses of a beam, if they were requested."""


class PlainState(NamedTuple):
    """The state of a hypothesis that goes on with one token after the other, with nothing else to decide."""

    token: int | None
    """The last token; None at the start."""
    position: int
    """The number of tokens before the next one, the prompt included."""
    room: int
    """The number of tokens that it may still have."""


class TargetSequence(Protocol):
    """One request's hypotheses."""

    def copies(self) -> list[tuple[int, int, int]]:
        """Target K/V to copy before the next step: (from slot, to slot, positions)."""
        ...

    def rows(self) -> list[Row]:
        """Return the rows of the next step."""
        ...

    def advance(self, extensions: list[Extension]) -> StepResult:
        """Continue with the rows' extensions: those of the first row, then of the second, ...

        Raises `SearchDiffers`.
        """
        ...

    def plain_state(self) -> PlainState | None:
        """Return the state from which a `PlainTable` continues; None while the sequence itself is needed."""
        ...
