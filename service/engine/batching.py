"""The tensors that go into a block of steps of a runner and come out of it, made from requests."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple

import torch
from torch import Tensor

from model.decode_step import NO_OUTPUTS, NO_PLAIN_ROWS, Outputs, PlainRows, Queries
from model.kernels import best_extensions
from model.topk import NO_BEAMS, Beams, Extensions
from service.engine.messages import NO_TOKENS
from service.engine.scheduler import Running
from service.engine.sequences.plain import BlockTokens, Column, PlainProgress, PlainTable
from service.engine.sequences.rows import Row


class SourceBatch(NamedTuple):
    """Sources to encode, one after the other: `ids` and `positions [1, tokens]`, `offsets [sources + 1]`."""

    ids: Tensor
    positions: Tensor
    offsets: Tensor
    lengths: list[int]
    slots: list[int]
    required: list[list[int]]
    """Words that each translation may have with any source: those that its request gives."""


class PlainQueries(NamedTuple):
    """The rows of some plain requests."""

    queries: Queries
    rows: PlainRows


NO_PLAIN_QUERIES: Final = PlainQueries(Queries(*torch.empty(5, 0, dtype=torch.int64).unbind()), NO_PLAIN_ROWS)


class Block(NamedTuple):
    """The limits of a block of steps."""

    steps: int
    seconds: float
    """Time limit of a block: no further step starts that would end after it."""


ONE_STEP: Final = Block(1, 0.0)


class StepBatch(NamedTuple):
    """A block of decoder steps."""

    queries: Queries
    """The rows of the first step, the plain ones last."""
    copies: list[tuple[int, int, int]]
    """(from slot, to slot, positions): target K/V to copy before the step. No slot is both read and written."""
    outputs: Outputs
    beams: Beams = NO_BEAMS
    """Rows of beams for which the best extensions are returned instead of logits."""
    plain: PlainRows = NO_PLAIN_ROWS
    """Rows whose tokens the runner chooses; after the last token of one, it is left out of further steps."""
    block: Block = ONE_STEP
    """Limits of the steps. With several, all rows are plain ones or a beam's; the next rows of a beam are its best
    extensions, in the slots that `BeamSequence` would give them. The end of a hypothesis ends the block."""

    @property
    def first_plain(self) -> int:
        """The number of the first of the plain rows."""
        return len(self.queries.tokens) - len(self.plain.rooms)

    @property
    def beam_rows(self) -> list[int]:
        """The rows of all `beams`."""
        return [row for first, count, _ in self.beams.rows.tolist() for row in range(first, first + count)]


class StepScores(NamedTuple):
    """The results of a step, on the CPU."""

    tokens: Tensor
    """The most probable id of each row, the lowest of equal ones, or a sampled row's token: int64 `[steps, rows]`."""
    logprobs: Tensor
    """The token's log-probability, float32 `[steps, rows]`."""
    logits: Tensor
    """Logits for `outputs.logits`: float32 `[len(outputs.logits), vocab]`, the caller's to change."""
    alignment: Tensor | None = None
    """Weights over the source for `outputs.alignment`, float32 `[rows, longest source]`, 0 after its end; None if none
    were requested."""
    self_attention: Tensor | None = None
    """Weights over positions 0 to a row's own for `outputs.self_attention`, the mean of the heads of each decoder
    layer, float32 `[rows, layers, longest]`, 0 after its position; no layers where the decoder has no self-attention;
    None if none were requested."""
    extensions: Extensions | None = None
    """The best extensions of `beams`, `[steps, beams, twice the largest size]` each; None without beams."""
    counts: Tensor = NO_PLAIN_ROWS.rooms
    """The number of tokens of each plain row, at least 1; numbers after them mean nothing: int64 `[plain rows]`."""


def extensions_of(batch: StepBatch, logits: Tensor) -> Extensions | None:
    """Return the best extensions of a step's beams, from the logits of `batch.beam_rows`."""
    if not len(batch.beams.rows):
        return None
    _, counts, sizes = batch.beams.rows.T.tolist()
    best = best_extensions(logits, batch.beams.totals[batch.beam_rows], counts, 2 * max(sizes))
    return Extensions(*(each[None] for each in best))


def source_batch(admitted: Sequence[Running]) -> SourceBatch:
    sources = [running.request.prompt.source_ids for running in admitted]
    lengths = [len(source) for source in sources]
    return SourceBatch(
        ids=_row_of(chain.from_iterable(sources)),
        positions=_row_of(chain.from_iterable(map(range, lengths))),
        offsets=torch.tensor([0, *accumulate(lengths)]),
        lengths=lengths,
        slots=[running.slots[0] for running in admitted],
        required=[running.request.constraints.given_ids for running in admitted],
    )


def _row_of(numbers: Iterable[int]) -> Tensor:
    """Return `[1, numbers]`, by way of an array: PyTorch reads lists slowly."""
    return torch.frombuffer(array("q", numbers), dtype=torch.int64)[None]


def step_batch(
    groups: Sequence[Sequence[Row]],
    copies: list[tuple[int, int, int]],
    bos_id: int,
    plain: PlainQueries = NO_PLAIN_QUERIES,
    block: Block = ONE_STEP,
) -> StepBatch:
    """Return the batch of a block: `groups`, which may shorten it, are the rows of each request that is not plain."""
    if not groups:
        return StepBatch(plain.queries, copies, NO_OUTPUTS, plain=plain.rows, block=block)
    rows = [row for group in groups for row in group]
    numbers = array("q", [row.ids[-1] if row.ids else bos_id for row in rows])
    numbers.extend([len(row.ids) for row in rows])
    numbers.extend([row.slot for row in rows])
    numbers.extend([row.source_slot for row in rows])
    numbers.extend([len(row.request.prompt.source_ids) for row in rows])
    outputs = Outputs(
        [number for number, row in enumerate(rows) if row.needs_logits],
        [number for number, row in enumerate(rows) if row.needs_alignment],
        [number for number, row in enumerate(rows) if row.needs_self_attention],
    )
    columns = torch.frombuffer(numbers, dtype=torch.int64).view(5, -1)
    if len(plain.rows.rooms):
        columns = torch.cat([columns, torch.stack(plain.queries)], dim=1)
    return StepBatch(
        Queries(*columns.unbind()),
        copies,
        outputs,
        beams=_beams(groups, len(plain.rows.rooms)),
        plain=plain.rows,
        block=block._replace(steps=min(block.steps, 1 + min(map(_steps_ahead, groups)))),
    )


def _beams(groups: Sequence[Sequence[Row]], plain_rows: int) -> Beams:
    beams = array("q")
    end = 0
    for group in groups:
        end += len(group)
        if group[-1].is_ranked:
            count = sum(row.is_ranked for row in group)
            beams.extend((end - count, count, group[-1].request.search.beam.size))
    if not beams:
        return NO_BEAMS
    totals = array("f", [row.total for group in groups for row in group])
    totals.extend([0.0] * plain_rows)
    return Beams(torch.frombuffer(beams, dtype=torch.int64).view(-1, 3), torch.frombuffer(totals, dtype=torch.float32))


def _steps_ahead(group: Sequence[Row]) -> int:
    """Return the steps ahead of a request; none before its beam has its full width."""
    return min(row.steps_ahead for row in group) if len(group) == group[-1].request.search.beam.size else 0


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

    def advance(self, slots: list[int], scores: StepScores) -> PlainProgress:
        """Continue the requests in `slots` by the tokens of their rows, which are the last ones."""
        if not slots:
            return PlainProgress(NO_TOKENS, [], [])
        ids, logprobs = scores.tokens[:, -len(slots) :], scores.logprobs[:, -len(slots) :]
        tokens = BlockTokens(
            len(ids),
            array("i", _bytes_of(ids.T, torch.int32)),
            array("f", _bytes_of(logprobs.T, torch.float32)),
            bool(logprobs.isnan().any()),
        )
        return self._table.advance(slots, scores.counts.tolist(), tokens)


def _bytes_of(values: Tensor, dtype: torch.dtype) -> bytes:
    """Return the numbers as the machine stores them, row by row."""
    memory = bytearray(values.numel() * dtype.itemsize)
    torch.frombuffer(memory, dtype=dtype).view(values.shape).copy_(values)
    return bytes(memory)
