"""The tensors of a block of steps for the plain requests of a table, and the report that comes of their tokens."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from model.decode_step import Queries
from model.plain_rows import NO_PLAIN_ROWS, PlainRows
from service.engine.messages import ENDS, NO_TOKENS, TokenBlock
from service.engine.sequences.plain import Column, PlainTable

_STOP: Final = ENDS.index("stop")
_LENGTH: Final = ENDS.index("length")


class PlainQueries(NamedTuple):
    """The rows of some plain requests."""

    queries: Queries
    rows: PlainRows


NO_PLAIN_QUERIES: Final = PlainQueries(Queries(*torch.empty(5, 0, dtype=torch.int64).unbind()), NO_PLAIN_ROWS)


class PlainProgress(NamedTuple):
    """The results of a block: its report, and the slots of the requests that have ended, or cannot go on."""

    block: TokenBlock
    ended: list[int]
    failed: list[int]


class PlainTensors:
    """A `PlainTable` as tensors, which share its memory."""

    def __init__(self, table: PlainTable, eos_id: int) -> None:
        self._numbers = torch.frombuffer(table.numbers, dtype=torch.int64).view(len(Column), table.slots)
        self._temperatures = torch.frombuffer(table.temperatures, dtype=torch.float32)
        self._top_ps = torch.frombuffer(table.top_ps, dtype=torch.float32)
        self._eos_id = eos_id

    def queries(self, slots: list[int]) -> PlainQueries:
        """Return a row for each of the requests in `slots`."""
        if not slots:
            return NO_PLAIN_QUERIES
        places = torch.tensor(slots, dtype=torch.int64)
        own = self._numbers[:, places]
        queries = Queries(own[Column.TOKEN], own[Column.POSITION], places, places, own[Column.SOURCE_LENGTH])
        rooms, temperatures = own[Column.ROOM], self._temperatures[places]
        if not bool(temperatures.any()):
            return PlainQueries(queries, NO_PLAIN_ROWS._replace(rooms=rooms))
        sampling = (temperatures, own[Column.TOP_K], self._top_ps[places], own[Column.SEED])
        return PlainQueries(queries, PlainRows(rooms, *sampling))

    def advance(self, slots: list[int], tokens: Tensor, logprobs: Tensor, counts: Tensor) -> PlainProgress:
        """Continue the requests in `slots` by the first `counts [rows]` of `tokens` and `logprobs [steps, rows]`."""
        if not slots:
            return PlainProgress(NO_TOKENS, [], [])
        places = torch.tensor(slots, dtype=torch.int64)
        written = torch.arange(len(tokens))[:, None] < counts
        broken = (logprobs.isnan() & written).any(dim=0)
        failed: list[int] = []
        if bool(broken.any()):
            failed = places[broken].tolist()
            keep = ~broken
            places, counts, written = places[keep], counts[keep], written[:, keep]
            tokens, logprobs = tokens[:, keep], logprobs[:, keep]
        last = tokens.gather(0, counts[None] - 1)[0]
        own = self._numbers[:, places]
        own[Column.TOKEN] = last
        own[Column.POSITION] += counts
        own[Column.ROOM] -= counts
        self._numbers[:, places] = own
        ends = torch.where(last == self._eos_id, _STOP, (own[Column.ROOM] <= 0) * _LENGTH)
        # One request's tokens after the other.
        block = TokenBlock(
            _bytes_of(own[Column.REQUEST_ID], torch.int64),
            _bytes_of(counts, torch.uint8),
            _bytes_of(ends, torch.uint8),
            _bytes_of(tokens.T[written.T], torch.int32),
            _bytes_of(logprobs.T[written.T], torch.float32),
        )
        return PlainProgress(block, places[ends > 0].tolist(), failed)


def _bytes_of(values: Tensor, dtype: torch.dtype) -> bytes:
    """Return the numbers as the machine stores them."""
    memory = bytearray(len(values) * dtype.itemsize)
    if memory:
        torch.frombuffer(memory, dtype=dtype).copy_(values)
    return bytes(memory)
