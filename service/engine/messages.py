"""Messages between the HTTP process and an engine process: plain values, no torch, no HTTP.

Commands go down, reports come up, one report a block of steps. Both are msgpack; ids are the HTTP side's.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from model.beam_search import NOT_INSPECTED, Inspection

FinishReason = Literal["stop", "length"]
"""`stop`: end of sentence; `length`: `max_new_tokens` reached."""


class Prompt(msgspec.Struct, frozen=True, array_like=True):
    """Token ids that the model reads: those of the source, and those that the decoder reads after bos.

    `decoder_ids` are no part of the translation, but a beam counts them in its lengths.
    """

    source_ids: list[int]
    decoder_ids: list[int] = []


class Sampling(msgspec.Struct, frozen=True, array_like=True):
    """The rule that chooses tokens. Temperature 0 is greedy; `top_k` 0 and `top_p` 1 restrict nothing."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


class Beam(msgspec.Struct, frozen=True, array_like=True):
    """Beam width; 1 disables beam search. See `model.decoding.beam_decode` for the rules.

    Scores are divided by length ** `length_penalty`; the `alternatives` next best hypotheses are reported too.
    """

    size: int = 1
    length_penalty: float = 1.0
    alternatives: int = 0


class Search(msgspec.Struct, frozen=True, array_like=True):
    """The search for a translation, and the limit of its length."""

    max_new_tokens: int
    sampling: Sampling = Sampling()
    beam: Beam = Beam()


class GivenTerm(msgspec.Struct, frozen=True, array_like=True):
    """A part of the source, by positions from `start` up to `end`, whose translation is given: `ids`, one or more."""

    start: int
    end: int
    ids: list[int]


class Constraints(msgspec.Struct, frozen=True, array_like=True):
    """Rules about what a translation must and must not contain.

    The first two are rules against repetition, over the ids so far, the prompt included (`model.logits_processors`); 1
    and 0 disable them. The translation begins with `forced_ids`, fewer than `max_new_tokens` and without eos, however
    improbable they are. `terms`, in the order of the source, are translated as given (`engine.forced_terms`);
    `closing_ids` are punctuation marks after which a sentence normally ends.
    """

    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    forced_ids: list[int] = []
    terms: list[GivenTerm] = []
    closing_ids: list[int] = []

    @property
    def changes_logits(self) -> bool:
        return self.repetition_penalty != 1.0 or self.no_repeat_ngram_size != 0


class Resume(msgspec.Struct, frozen=True, array_like=True):
    """Tokens that the client has from an engine that died: they are generated again, but not reported again.

    `sent_terms` has a term's number or None for each of `sent_ids`; it is empty where the request has no terms.
    """

    sent_ids: list[int] = []
    sent_terms: list[int | None] = []


class Inspect(msgspec.Struct, frozen=True, array_like=True):
    """Details that are reported of each token (`Inspection`).

    `candidates` is the number of most probable tokens; `alignment` is the position of the source with the largest
    cross-attention weight, `attention` all of these weights, only with `alignment`; `self_attention` the weights over
    what was written before. With `hypotheses`, the live hypotheses are reported after each step of a beam.
    """

    candidates: int = 0
    alignment: bool = False
    attention: bool = False
    self_attention: bool = False
    hypotheses: bool = False

    @property
    def weights(self) -> bool:
        """True if attention weights of any kind are needed."""
        return self.alignment or self.self_attention


class GenerationRequest(msgspec.Struct, frozen=True, array_like=True):
    """One segment to translate.

    A request that `yields_to_new`, in the middle of a long text, lets new requests have their first token before it
    continues.
    """

    prompt: Prompt
    search: Search
    constraints: Constraints = Constraints()
    resume: Resume = Resume()
    inspect: Inspect = Inspect()
    yields_to_new: bool = False


class Submit(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Queue a request. `submitted_at` is `time.monotonic()`, which all processes of a machine share."""

    request_id: int
    request: GenerationRequest
    submitted_at: float


class Cancel(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Drop a request, waiting or running; unknown ids are ignored."""

    request_id: int


Command = Submit | Cancel


class Alternative(msgspec.Struct, frozen=True, array_like=True):
    """Another translation beside the reported one, and the sum of its log-probabilities."""

    tokens: list["TokenReport"]
    logprob: float


class TokenReport(msgspec.Struct, frozen=True, array_like=True):
    """One token of one request; the last one carries the reason, and the alternatives if there are any.

    `term` is the number of the given term that the token belongs to.
    """

    request_id: int
    token_id: int
    logprob: float
    finish_reason: FinishReason | None = None
    alternatives: Sequence[Alternative] = ()
    term: int | None = None
    inspection: Inspection = NOT_INSPECTED


class TokenRun(msgspec.Struct, frozen=True):
    """Successive tokens of one request that are nothing but tokens: neither of a term nor inspected."""

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason | None = None

    def reports(self, request_id: int) -> list[TokenReport]:
        """Return a report for each token."""
        pairs = zip(self.token_ids, self.logprobs, strict=True)
        reports = [TokenReport(request_id, *pair) for pair in pairs]
        if self.finish_reason is not None:
            reports[-1] = msgspec.structs.replace(reports[-1], finish_reason=self.finish_reason)
        return reports


def joined(runs: Sequence[TokenRun]) -> TokenRun:
    """Join successive runs of a request."""
    if len(runs) == 1:
        return runs[0]
    ids = [token_id for run in runs for token_id in run.token_ids]
    return TokenRun(ids, [logprob for run in runs for logprob in run.logprobs], runs[-1].finish_reason)


ENDS: Final[tuple[FinishReason | None, ...]] = (None, "stop", "length")
"""The numbers of the reasons in a `TokenBlock`."""


class TokenBlock(msgspec.Struct, frozen=True, array_like=True):
    """The tokens that a block of steps has generated for plain requests: arrays, in the machine's byte order.

    `request_ids` (int64), `counts` and `ends` (uint8, numbers of `ENDS`) have one number for each request; `token_ids`
    (int32) and `logprobs` (float32) have one for each token, the requests one after the other.
    """

    request_ids: bytes = b""
    counts: bytes = b""
    ends: bytes = b""
    token_ids: bytes = b""
    logprobs: bytes = b""

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return sum(self.counts)

    def runs(self) -> Iterator[tuple[int, TokenRun]]:
        """Yield each request's id with its tokens."""
        ids, logprobs = array("i", self.token_ids).tolist(), array("f", self.logprobs).tolist()
        start = 0
        for request_id, count, end in zip(memoryview(self.request_ids).cast("q"), self.counts, self.ends, strict=True):
            until = start + count
            yield request_id, TokenRun(ids[start:until], logprobs[start:until], ENDS[end])
            start = until


NO_TOKENS: Final = TokenBlock()


class LiveHypothesis(msgspec.Struct, frozen=True, array_like=True):
    """A hypothesis that a beam keeps after a step: `ids` appended to the `parent`-th of the hypotheses before.

    `logprob` is the sum of all its log-probabilities; `term` is as in `TokenReport`.
    """

    parent: int
    ids: list[int]
    logprob: float
    term: int | None = None


class BeamReport(msgspec.Struct, frozen=True, array_like=True):
    """All live hypotheses of one request after a step, the best first; the first step extends an empty one."""

    request_id: int
    hypotheses: list[LiveHypothesis]


SegmentReport = TokenReport | TokenRun | BeamReport
"""Reports of a segment, in the order of the steps, and within a step the tokens first."""


class StepStats(msgspec.Struct, frozen=True, array_like=True):
    """Figures of one turn of the loop, and the engine's state after it."""

    slots_used: int
    batch_rows: int = 0
    """Rows of the first step; rows that have ended are left out of the further steps of a block."""
    steps: int = 0
    """Decoder steps of this turn; more than one in a block."""
    source_tokens: int = 0
    encode_seconds: float | None = None
    step_seconds: float | None = None
    """Mean seconds of one decoder step."""


class StepReport(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """One message a block of steps, for all of its requests.

    `failed` are the ids of requests that ended with a failure; `block` has the tokens of plain requests, `tokens` all
    others.
    """

    tokens: list[TokenReport]
    stats: StepStats
    failed: list[int] = []
    beams: list[BeamReport] = []
    block: TokenBlock = NO_TOKENS

    def all_tokens(self) -> list[TokenReport]:
        """Return a report for each token, also of plain requests."""
        runs = [report for request_id, run in self.block.runs() for report in run.reports(request_id)]
        return [*self.tokens, *runs]


class Admitted(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The requests that get their slots in the next step, and how long each has waited.

    Sent before the step: if the engine dies in it, the HTTP process knows which requests it was working on.
    """

    request_ids: list[int]
    queue_seconds: list[float]


class Ready(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The engine has loaded its model, onto `device`."""

    parameters: int
    device: str


class Failed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The engine cannot start, and why. With `checkpoint`, the files are the reason: a retry alone does not help."""

    reason: str
    checkpoint: bool = False


Report = Admitted | StepReport | Ready | Failed


class Loaded(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The fork server has its model."""


class Forked(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The fork server has made an engine process."""

    pid: int


ForkReply = Loaded | Failed | Forked


class EngineOptions(msgspec.Struct, frozen=True):
    """The options of all engine processes of a model.

    `device` is `cpu`, `cuda:1` or the like, or `cuda`, where each replica takes the next GPU in turn. With a
    `content_id` the checkpoint's files must have it (`model.checkpoint_config`). `forks` is False where
    not every library of the system survives a fork: there each engine process loads the model for itself.
    """

    checkpoint: str
    mode: str
    threads: int
    slots: int
    max_prefill: int
    max_length: int
    log_level: str = "info"
    device: str = "cpu"
    content_id: str = ""
    forks: bool = sys.platform == "linux"
