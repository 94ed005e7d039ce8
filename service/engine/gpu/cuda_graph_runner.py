"""Execution of a plan on a GPU: the decode step and the encoder as CUDA graphs, one for each of a few shapes.

A step's shape is a bucket: its numbers of rows and of positions that each attends to, in sources and targets alike,
rounded up to powers of two. Surplus rows are padding, and write to a slot of their own. Steps with alignments or with
self-attention have buckets of their own. Logits are always computed, and copied to the CPU for the rows that need them.
Beams are ranked on the device, by operations that follow the graph.

The encoder's shape is a number of tokens, of all sources together. More tokens than the largest has, and sources of a
model with relative positions, are padded to the longest of them and encoded eagerly: each kernel then has enough to do.

The most used buckets are recorded at the start, so that a ready engine has them. The others are recorded when they are
first needed, which takes little more than a few eager steps and is logged. Prompts and forced prefixes are rows too: a
step may have more of them than there are slots. One with more than twice as many is not worth a graph and is done
eagerly, by the same code.

How numbers are rounded depends on the bucket: the log-probabilities of a request differ in their last bits with what
else is in the batch, and a near tie may fall either way.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.attention import padding_mask
from model.decode_step import PlainRows
from model.sampling import restricts
from model.slot_cache import SlotCache
from model.topk import Extensions, best_extensions, members
from model.transformer import Transformer
from service.engine.batching import ONE_STEP, SourceBatch, StepBatch, StepScores
from service.engine.gpu.device import CapturedStep, RepeatedStep, Transfer, executor_of
from service.engine.gpu.static_steps import (
    Arrivals,
    Bucket,
    SamplingKind,
    StaticDecodeStep,
    StaticEncodeStep,
    StepBuffers,
    StepTables,
)
from service.engine.runner import DeviceLost

logger = logging.getLogger(__name__)

_NARROWEST: Final = 32
_ENCODER_SIZES: Final = 64, 128, 256, 512, 1024
"""Tokens. Attention computes a score for each pair of them, also of different sources: not too many."""
_GREEDY: Final = torch.tensor([[0.0], [1.0]])
"""The options of a row that does not sample."""
_COMMON_WIDTH: Final = 64
"""Sentences are mostly shorter than this, in tokens: buckets up to here are recorded at the start."""


@contextmanager
def _errors_of_the_device() -> Iterator[None]:
    """After most errors of CUDA, an illegal address for one, all that follows in the process fails too."""
    try:
        yield
    except torch.AcceleratorError as error:  # not of its memory being full: that is an error of its own
        raise DeviceLost from error


class CudaGraphRunner:
    """The Runner of a model on a GPU; on any other device the same, without graphs."""

    def __init__(self, model: Transformer, *, slots: int, max_length: int) -> None:
        weight = model.embedding.weight
        self._model = model
        self._executor = executor_of(weight.device)
        self._device, self._dtype = weight.device, weight.dtype
        self._cache = SlotCache(
            model.config,
            slots=slots + 1,
            max_source_length=max_length,
            max_target_length=max_length,
            dtype=weight.dtype,
            device=weight.device,
        )
        self._row_sizes = [*_sizes(1, slots), 2 * slots]
        self._widths = _sizes(_NARROWEST, max_length)
        # A row that fills up a bucket: bos at the first position of the last slot, with a source of one token there.
        self._padding = torch.tensor([[model.config.bos_id], [0], [slots], [slots], [1], [0], [0], [0]])
        self._padding_there = self._padding.to(weight.device)
        self._slots = slots
        # One for all sizes: the logits of a large vocabulary would otherwise take several times as much memory.
        self._tables = self._new_tables(slots)
        self._buffers: dict[int, StepBuffers] = {}
        self._captured: dict[Bucket, tuple[StepBuffers, CapturedStep]] = {}
        self._source_padding = torch.tensor([[model.config.bos_id], [0], [-1], [slots]])
        self._encoders: dict[int, tuple[Tensor, CapturedStep]] = {}
        self._capture_common()

    @torch.inference_mode()
    def _capture_common(self) -> None:
        started = time.monotonic()
        widths = [each for each in reversed(self._widths) if each <= _COMMON_WIDTH]
        # The largest first: the others fit into the memory that it allocates.
        for rows in reversed(self._row_sizes[:-1]):
            for width in widths:
                self._capture(Bucket(rows, width))
        if self._model.config.positions != "relative":
            for tokens in reversed(_ENCODER_SIZES):
                self._capture_encoder(tokens)
        seconds = round(time.monotonic() - started, 3)
        what = "decode steps captured" if self._executor.records else "decode steps of fixed shapes, without graphs"
        logger.info(what, extra={"steps": len(self._captured), "encoders": len(self._encoders), "seconds": seconds})

    @_errors_of_the_device()
    @torch.inference_mode()
    def prefill(self, sources: SourceBatch) -> None:
        tokens = sources.ids.shape[1]
        size = min((each for each in self._encoders if each >= tokens), default=None)
        if size is None:
            self._encode_padded(sources)
            return
        lengths = torch.tensor(sources.lengths)
        numbers = torch.stack([torch.arange(len(lengths)), torch.tensor(sources.slots)])
        own = torch.cat([sources.ids, sources.positions, numbers.repeat_interleave(lengths, dim=1)])
        inputs, step = self._encoders[size]
        inputs.copy_(self._executor.upload(torch.cat([own, self._source_padding.expand(-1, size - tokens)], dim=1)))
        step.replay()

    def _encode_padded(self, sources: SourceBatch) -> None:
        ids = pad_sequence(list(torch.split(sources.ids[0], sources.lengths)), batch_first=True)
        lengths, slots = self._executor.upload(torch.tensor([sources.lengths, sources.slots]))
        mask = padding_mask(lengths, ids.shape[1], self._dtype)
        self._cache.write_padded_source(slots, self._model.encode(self._executor.upload(ids), mask))

    @_errors_of_the_device()
    @torch.inference_mode()
    def decode(self, batch: StepBatch) -> StepScores:
        if batch.copies:
            self._copy(batch.copies)
        queries, outputs = batch.queries, batch.outputs
        ranking = self._ranking(batch)
        # A beam's next rows are not known here.
        block = batch.block if ranking is None else ONE_STEP
        buffers, step = self._step_of(batch, block.steps)
        self._write_inputs(buffers, batch)
        scores = self._run(buffers, step, ranking, batch._replace(block=block))
        alignment = self_attention = None
        if outputs.alignment:
            alignment = self._weights_of(buffers.alignment, outputs.alignment, queries.source_lengths)
        if outputs.self_attention:
            self_attention = self._weights_of(buffers.self_attention, outputs.self_attention, queries.positions + 1)
        return scores._replace(alignment=alignment, self_attention=self_attention)

    def _ranking(self, batch: StepBatch) -> "_Ranking | None":
        """Upload the rows and sums by which the step's beams are ranked."""
        rows = batch.beam_rows
        if not rows:
            return None
        _, counts, sizes = batch.beams.rows.T.tolist()
        beams = members(len(rows), counts)
        numbers = self._executor.upload(torch.cat([torch.tensor(rows), beams.flatten()]))
        totals = self._executor.upload(batch.beams.totals[rows])
        return _Ranking(numbers[: len(rows)], totals, numbers[len(rows) :].view_as(beams), 2 * max(sizes))

    def _write_inputs(self, buffers: StepBuffers, batch: StepBatch) -> None:
        queries, plain, rows = batch.queries, batch.plain, len(batch.queries.tokens)
        # The previous step has finished, so its inputs may be overwritten.
        inputs = buffers.own_inputs.copy_(self._padding)
        torch.stack(queries, out=inputs[: len(queries), :rows])
        own = slice(batch.first_plain, rows)
        inputs[len(queries), own] = plain.rooms
        if plain.is_sampled:
            torch.stack([plain.top_ks, plain.seeds], out=inputs[len(queries) + 1 :, own])
            options = buffers.own_options.copy_(_GREEDY)
            torch.stack([plain.temperatures, plain.top_ps], out=options[:, own])
            buffers.options.copy_(options, non_blocking=True)
        buffers.inputs.copy_(inputs, non_blocking=True)

    def _run(
        self, buffers: StepBuffers, step: CapturedStep, ranking: "_Ranking | None", batch: StepBatch
    ) -> StepScores:
        """Run a block of steps and return its scores, without attention weights.

        While there is time, the next step is already running when the CPU reads the results of one, so that the GPU
        does not wait; in a step too many all rows are padding.
        """
        rooms, rows, block = batch.plain.rooms, len(batch.queries.tokens), batch.block
        counts, goes_on = torch.zeros_like(rooms), torch.ones_like(rooms, dtype=torch.bool)
        tokens, logprobs = torch.empty(block.steps, rows, dtype=torch.int64), torch.empty(block.steps, rows)
        began = last = time.monotonic()
        running = deque([self._replay(buffers, step, ranking, buffers.arrivals[0])])
        extensions: list[Tensor] = []
        done, ahead = 0, block.steps - 1
        while running:
            now = time.monotonic()
            if ahead > 0 and now - began + (now - last) <= block.seconds:
                ahead -= 1
                running.append(self._replay(buffers, step, ranking, buffers.arrivals[(done + 1) % 2]))
            last = now
            extensions = running.popleft().wait()
            arrived = buffers.arrivals[done % 2]
            tokens[done], logprobs[done] = arrived.tokens[:rows], arrived.logprobs[:rows]
            counts += goes_on
            goes_on &= (tokens[done, batch.first_plain :] != self._model.config.eos_id) & (counts < rooms)
            done += 1
            if not bool(goes_on.any()):
                break
        logits = self._rows_of(buffers.logits, batch.outputs.logits)
        ranked = Extensions(*(each[None] for each in extensions)) if extensions else None
        return StepScores(tokens[:done], logprobs[:done], logits, extensions=ranked, counts=counts)

    def _replay(
        self, buffers: StepBuffers, step: CapturedStep, ranking: "_Ranking | None", arrivals: Arrivals
    ) -> Transfer:
        """Start a step; return the transfer of the beams' extensions, which ends when `arrivals` are there, too."""
        step.replay()
        arrivals.tokens.copy_(buffers.tokens, non_blocking=True)
        arrivals.logprobs.copy_(buffers.logprobs, non_blocking=True)
        return self._executor.download(*(() if ranking is None else ranking.ranked(buffers)))

    def _weights_of(self, weights: Tensor, rows: list[int], lengths: Tensor) -> Tensor:
        """Return `rows` of `weights [rows, ..., width]`, as wide as the longest of them."""
        return self._rows_of(weights[..., : int(lengths[rows].max())], rows)

    def _rows_of(self, table: Tensor, rows: list[int]) -> Tensor:
        """Copy rows of a table on the device, `[rows, ...]`, to the CPU."""
        if not rows:
            return torch.empty(0, *table.shape[1:])
        [chosen] = self._executor.download(table[self._executor.upload(torch.tensor(rows))]).wait()
        return chosen

    def _copy(self, copies: list[tuple[int, int, int]]) -> None:
        origins, destinations, positions = torch.tensor(copies).T
        pair = self._executor.upload(torch.stack([origins, destinations]))
        # Surplus positions of a shorter copy are overwritten before anything attends to them.
        self._cache.copy_target_at_once(pair[0], pair[1], int(positions.max()))

    def _step_of(self, batch: StepBatch, steps: int) -> tuple[StepBuffers, CapturedStep]:
        """Return the step of the smallest bucket that has room for the batch during so many steps."""
        rows = len(batch.queries.tokens)
        looking = bool(batch.outputs.alignment), bool(batch.outputs.self_attention)
        width = self._width_of(batch, steps)
        sampling = _sampling_of(batch.plain)
        if rows > self._row_sizes[-1]:
            buffers = self._new_buffers(rows)
            return buffers, RepeatedStep(self._step(buffers, Bucket(rows, width, *looking, sampling)))
        size = next(each for each in self._row_sizes if each >= rows)
        bucket = Bucket(size, width, *looking, sampling)
        if bucket not in self._captured:
            started = time.monotonic()
            self._capture(bucket)
            seconds = round(time.monotonic() - started, 3)
            if self._executor.records:
                logger.info("decode step captured while serving", extra={**bucket._asdict(), "seconds": seconds})
        return self._captured[bucket]

    def _width_of(self, batch: StepBatch, steps: int) -> int:
        """Return the smallest width that has room for what rows read during so many steps."""
        ends = batch.queries.positions + 1
        ends[batch.first_plain :] += batch.plain.rooms.clamp(max=steps) - 1
        longest = max(int(batch.queries.source_lengths.max()), int(ends.max()))
        return next(each for each in self._widths if each >= longest)

    def _capture(self, bucket: Bucket) -> None:
        if bucket.rows not in self._buffers:
            self._buffers[bucket.rows] = self._new_buffers(bucket.rows)
        buffers = self._buffers[bucket.rows]
        # The step is run, on rows that belong to no request.
        buffers.inputs.copy_(buffers.padding)
        step = self._step(buffers, bucket)
        self._captured[bucket] = buffers, self._recorded(step, **bucket._asdict())

    def _capture_encoder(self, tokens: int) -> None:
        inputs = self._source_padding.repeat(1, tokens).to(self._device)
        step = StaticEncodeStep(self._model, self._cache, inputs)
        self._encoders[tokens] = inputs, self._recorded(step, tokens=tokens)

    def _recorded(self, step: Callable[[], None], **size: object) -> CapturedStep:
        try:
            return self._executor.capture(step)
        except torch.OutOfMemoryError:
            # Without its graph it is slower; trying again with each step would fail them all.
            logger.warning("no memory left for a graph of this size", extra=size)
            return RepeatedStep(step)

    def _step(self, buffers: StepBuffers, bucket: Bucket) -> StaticDecodeStep:
        return StaticDecodeStep(self._model, self._cache, buffers, bucket)

    def _new_buffers(self, rows: int) -> StepBuffers:
        tables = self._tables if rows <= self._slots else self._new_tables(rows)
        return StepBuffers(rows, tables, self._padding_there)

    def _new_tables(self, rows: int) -> StepTables:
        return StepTables(rows, self._model.config, self._widths[-1], self._device)


class _Ranking(NamedTuple):
    """The beams of a step, ranked on the device."""

    rows: Tensor
    """The rows of all beams."""
    totals: Tensor
    beams: Tensor
    """`members` of these rows."""
    most: int
    """The number of extensions of each."""

    def ranked(self, buffers: StepBuffers) -> Extensions:
        return best_extensions(
            buffers.logits[self.rows], buffers.logprobs[self.rows], self.totals, self.beams, self.most
        )


def _sampling_of(plain: PlainRows) -> SamplingKind:
    if not plain.is_sampled:
        return "none"
    return "restricted" if restricts(plain.top_ks, plain.top_ps) else "free"


def _sizes(first: int, last: int) -> list[int]:
    """Powers of two times `first` below `last`, then `last`."""
    sizes = []
    while first < last:
        sizes.append(first)
        first *= 2
    return [*sizes, last]
