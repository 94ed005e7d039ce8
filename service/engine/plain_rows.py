"""The tensors of a block of steps for the plain requests of a table, and the report that comes of their tokens."""

from array import array
from typing import Final, NamedTuple

import torch
from torch import Tensor

from model.decode_step import Queries
from model.plain_rows import NO_PLAIN_ROWS, PlainRows
from service.engine.messages import NO_TOKENS
from service.engine.sequences.plain import BlockTokens, Column, PlainProgress, PlainTable


class PlainQueries(NamedTuple):
    """The rows of some plain requests."""

    queries: Queries
    rows: PlainRows


NO_PLAIN_QUERIES: Final = PlainQueries(Queries(*torch.empty(5, 0, dtype=torch.int64).unbind()), NO_PLAIN_ROWS)


class StepTokens(NamedTuple):
    """The tokens of the plain rows in a block."""

    tokens: Tensor
    """int64 `[steps, rows]`."""
    logprobs: Tensor
    """float32 `[steps, rows]`."""
    counts: Tensor
    """The number of tokens that each row has got; later ones are any: int64 `[rows]`."""


class PlainTensors:
    """A `PlainTable` as tensors, which share its memory."""

    def __init__(self, table: PlainTable) -> None:
        self._table = table
        self._numbers = torch.frombuffer(table.numbers, dtype=torch.int64).view(len(Column), table.slots)
        self._temperatures = torch.frombuffer(table.temperatures, dtype=torch.float32)
        self._top_ps = torch.frombuffer(table.top_ps, dtype=torch.float32)

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

    def advance(self, slots: list[int], scores: StepTokens) -> PlainProgress:
        """Continue the requests in `slots` by the tokens of their rows."""
        if not slots:
            return PlainProgress(NO_TOKENS, [], [])
        tokens = BlockTokens(
            len(scores.tokens),
            array("i", _bytes_of(scores.tokens.T, torch.int32)),
            array("f", _bytes_of(scores.logprobs.T, torch.float32)),
            bool(scores.logprobs.isnan().any()),
        )
        return self._table.advance(slots, scores.counts.tolist(), tokens)


def _bytes_of(values: Tensor, dtype: torch.dtype) -> bytes:
    """Return the numbers as the machine stores them, row by row."""
    memory = bytearray(values.numel() * dtype.itemsize)
    torch.frombuffer(memory, dtype=dtype).view(values.shape).copy_(values)
    return bytes(memory)
