"""Plain requests as arrays: one hypothesis each, greedy or sampled, that reports only tokens.

Pure Python; `engine.batching` makes the tensors of a block of them, over the same memory.
"""

import math
from array import array
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from service.engine.generation_request import GenerationRequest
from service.engine.messages import ENDS, TokenBlock
from service.engine.sequences.rows import PlainState

_STOP: Final = ENDS.index("stop")
_LENGTH: Final = ENDS.index("length")


class Column(IntEnum):
    """The whole numbers of a plain request; its id comes first."""

    REQUEST_ID = 0
    TOKEN = 1
    POSITION = 2
    SOURCE_LENGTH = 3
    ROOM = 4
    TOP_K = 5
    SEED = 6


class BlockTokens(NamedTuple):
    """The tokens of a block: `steps` of each request, one request after the other."""

    steps: int
    token_ids: "array[int]"
    logprobs: "array[float]"
    may_be_broken: bool
    """True if not all log-probabilities are numbers."""


class PlainProgress(NamedTuple):
    """The results of a block: its report, and the slots of the requests that have ended, or cannot go on."""

    block: TokenBlock
    ended: list[int]
    failed: list[int]


class PlainTable:
    """The state of plain requests by slot; slots without one have any values."""

    def __init__(self, slots: int, bos_id: int, eos_id: int) -> None:
        self.slots = slots
        self._bos_id = bos_id
        self._eos_id = eos_id
        self.numbers = array("q", bytes(8 * slots * len(Column)))
        """Columns, one after the other, each with a number for each slot."""
        self.temperatures = array("f", bytes(4 * slots))
        self.top_ps = array("f", bytes(4 * slots))

    def put(self, slot: int, request_id: int, request: GenerationRequest, state: PlainState) -> None:
        """Let a request go on from `state` in its slot."""
        sampling = request.search.sampling
        token = self._bos_id if state.token is None else state.token
        length = len(request.prompt.source_ids)
        values = (request_id, token, state.position, length, state.room, sampling.top_k, sampling.seed)
        for column, value in enumerate(values):
            self.numbers[column * self.slots + slot] = value
        self.temperatures[slot] = sampling.temperature
        self.top_ps[slot] = sampling.top_p

    def advance(self, slots: Sequence[int], counts: Sequence[int], tokens: BlockTokens) -> PlainProgress:
        """Continue the requests in `slots`, each by the first so many of its tokens in a block."""
        numbers, size, steps, eos_id = self.numbers, self.slots, tokens.steps, self._eos_id
        token_at, position_at, room_at = Column.TOKEN * size, Column.POSITION * size, Column.ROOM * size
        request_ids, ends, ended, failed = array("q"), bytearray(), array("q"), list[int]()
        token_ids, logprobs, kept = array("i"), array("f"), bytearray()
        for row, (slot, count) in enumerate(zip(slots, counts, strict=True)):
            start = row * steps
            own = tokens.logprobs[start : start + count]
            if tokens.may_be_broken and any(map(math.isnan, own)):
                failed.append(slot)
                continue
            logprobs.extend(own)
            token_ids.extend(tokens.token_ids[start : start + count])
            last = token_ids[-1]
            numbers[token_at + slot] = last
            numbers[position_at + slot] += count
            numbers[room_at + slot] = room = numbers[room_at + slot] - count
            end = _STOP if last == eos_id else 0 if room > 0 else _LENGTH
            if end:
                ended.append(slot)
            request_ids.append(numbers[slot])
            kept.append(count)
            ends.append(end)
        block = TokenBlock(request_ids.tobytes(), bytes(kept), bytes(ends), token_ids.tobytes(), logprobs.tobytes())
        return PlainProgress(block, ended.tolist(), failed)
