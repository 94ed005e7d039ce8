"""Plain requests as arrays: one hypothesis each, greedy or sampled, of which nothing but tokens is reported.

Pure Python; `plain_rows` makes the tensors of a block of them, over the same memory.
"""

from array import array
from enum import IntEnum

from service.engine.messages import GenerationRequest
from service.engine.sequences.sequence import PlainState


class Column(IntEnum):
    """The whole numbers of a plain request."""

    REQUEST_ID = 0
    TOKEN = 1
    POSITION = 2
    SOURCE_LENGTH = 3
    ROOM = 4
    TOP_K = 5
    SEED = 6


class PlainTable:
    """The state of plain requests by slot; slots without one have any values."""

    def __init__(self, slots: int, bos_id: int) -> None:
        self.slots = slots
        self._bos_id = bos_id
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
