"""Messages between the HTTP process and an engine process: plain values, no torch, no HTTP.

Commands go down, reports come up, one report a block of steps. Both are msgpack in length-prefixed frames; ids are the
HTTP side's.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from model.beam_search import NOT_INSPECTED, Inspection
from service.engine.generation_request import GenerationRequest

_HEADER_BYTES: Final = 4


def frame(message: object) -> bytes:
    """Return a message after its length (4 bytes, big-endian)."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_HEADER_BYTES, "big") + body


_encoder = msgspec.msgpack.Encoder()


class Frames:
    """Cuts a byte stream back into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bodies of all messages complete so far."""
        self._buffer += data
        bodies = []
        start = 0
        while len(self._buffer) - start >= _HEADER_BYTES:
            end = start + _HEADER_BYTES + int.from_bytes(self._buffer[start : start + _HEADER_BYTES], "big")
            if end > len(self._buffer):
                break
            bodies.append(bytes(self._buffer[start + _HEADER_BYTES : end]))
            start = end
        del self._buffer[:start]
        return bodies


FinishReason = Literal["stop", "length"]
"""`stop`: end of sentence; `length`: `max_new_tokens` reached."""


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
    """The zygote has imported everything, or a fork server has its model."""


class Forked(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The zygote has made a fork server, or a fork server an engine process."""

    pid: int


ForkReply = Loaded | Failed | Forked


MOST_LENDERS: Final = 1024
"""Engines that can lend threads to one another."""


class EngineOptions(msgspec.Struct, frozen=True):
    """The options of all engine processes of a model.

    `device` is `cpu`, `cuda:1` or the like, or `cuda`, where each replica takes the next GPU in turn. `cpu_variant`
    names a variant of the C++ operators, or is `auto` for the best one. With a `content_id` the checkpoint's files must
    have it (`model.checkpoint_config`). With `uses_shortlist`, translations have only the words that the checkpoint's
    lexical shortlist leaves. With `lends_threads`, the `engines` borrow the threads of engines of any model that have
    no work; `first_lender` is the number of the first of them among those of all models, or -1 if they have none.
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
    uses_shortlist: bool = False
    cpu_variant: str = "auto"
    engines: int = 1
    lends_threads: bool = False
    first_lender: int = -1
