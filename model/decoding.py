"""Offline decoding of whole batches: the oracle of the engine's tests, and what BLEU is measured with.

All rows of a batch stand at the same position, rows that have ended leave it, and the cache is not the
serving buffers: simpler than the engine, and independent of it.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from model.attention import look_ahead_mask, padding_mask
from model.beam_search import BeamSearch, Choice, Extension, Path
from model.cache import KV
from model.topk import largest
from model.transformer import Transformer


class Hypothesis(NamedTuple):
    """A translation: `ids` without bos, ended by eos or cut at the limit, and its `score` (`beam_decode`)."""

    ids: list[int]
    score: float


@torch.inference_mode()
def greedy_decode(
    model: Transformer, sources: Sequence[Sequence[int]], max_new_tokens: int, prompt: Sequence[int] = ()
) -> list[list[int]]:
    """Translate `sources` (ids as the model wants them) together.

    The most probable token each time; of equal ones the lowest id. The decoder reads bos and `prompt` first; returns
    the ids after them, ended by eos or cut at the limit.
    """
    outputs: list[list[int]] = [[] for _ in sources]
    if not sources:
        return outputs
    batch = _Batch(model, sources)
    running = list(outputs)
    tokens = batch.first_tokens(prompt)
    for _ in range(max_new_tokens):
        tokens = batch.step(tokens).max(dim=-1).indices
        for output, token in zip(running, tokens.tolist(), strict=True):
            output.append(token)
        unended = (tokens != model.config.eos_id).nonzero().squeeze(1)
        if len(unended) < len(tokens):
            if not len(unended):
                break
            batch.select(unended)
            running = [running[row] for row in unended.tolist()]
            tokens = tokens[unended]
    return outputs


@torch.inference_mode()
def beam_decode(  # noqa: PLR0913  a search depends on all of them
    model: Transformer,
    sources: Sequence[Sequence[int]],
    max_new_tokens: int,
    beam_size: int,
    length_penalty: float = 1.0,
    alternatives: int = 1,
    prompt: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Up to `alternatives` (at most `beam_size`) distinct translations of each of `sources`, the best first.

    A source starts with one live hypothesis, the empty one. At each step its candidates are every live
    hypothesis with every token appended, ordered by the sum of their log-probabilities (equal sums:
    the parent that stood first, then the lower id). Only the first `2 * beam_size` count:

    - one that ends in eos is finished if it is among the first `beam_size`, otherwise it is dropped;
    - the first `beam_size` of the others are the live hypotheses of the next step.

    A source is done after the step in which its finished hypotheses reach `beam_size` (that step can
    bring them above), or when nothing is left alive; hypotheses still alive then are dropped. At
    `max_new_tokens` the live hypotheses of a source that is not done count as finished. Results are the
    finished hypotheses by score: the sum of log-probabilities / (number of ids, eos included) **
    `length_penalty`; equal scores in the order of finishing. There are fewer than `alternatives` only
    where the vocabulary allows no more.

    The decoder reads bos and `prompt` first. The prompt's tokens count in the number of ids, with probability 1,
    and are left out of the results.

    With `beam_size` 1 the ids are `greedy_decode`'s. What a source gives does not depend on the others,
    apart from the rounding of float32 sums.
    """
    assert max_new_tokens >= 1
    assert 1 <= alternatives <= beam_size
    if not sources:
        return []
    vocab = model.config.vocab_size
    start = Path.of([Choice(token, 0.0) for token in prompt], 0.0)
    searches = [BeamSearch(beam_size, length_penalty, model.config.eos_id, start) for _ in sources]
    filling = Extension(0, Choice(model.config.eos_id, -math.inf), -math.inf)
    running = searches
    batch = _Batch(model, sources)
    tokens = batch.first_tokens(prompt)
    logprobs = torch.zeros((len(sources), 1), device=tokens.device)
    for _ in range(max_new_tokens):
        live = logprobs.shape[1]
        each = batch.step(tokens).log_softmax(dim=-1)
        sums = (each + logprobs.view(-1, 1)).view(len(running), live * vocab)
        values, indices = largest(sums, 2 * beam_size)
        own = each.view(len(running), live * vocab).gather(-1, indices)
        rows: list[Extension] = []
        for number, ranked in enumerate(zip(indices.tolist(), own.tolist(), values.tolist(), strict=True)):
            survivors = running[number].advance(
                Extension(index // vocab, Choice(index % vocab, logprob), total)
                for index, logprob, total in zip(*ranked, strict=True)
            )
            # Where the vocabulary gives fewer than `beam_size`, rows of probability 0 fill the batch up.
            survivors += [filling] * (beam_size - len(survivors)) if survivors else []
            rows += [survivor._replace(parent=number * live + survivor.parent) for survivor in survivors]
        running = [search for search in running if search.live]
        if not running:
            break
        batch.select(torch.tensor([row.parent for row in rows], device=tokens.device))
        tokens = torch.tensor([row.choice.token for row in rows], device=tokens.device)
        logprobs = torch.tensor([row.total for row in rows], device=tokens.device).view(len(running), beam_size)
    return [
        [Hypothesis(path.ids[len(prompt) :], search.score(path)) for path in search.best(alternatives)]
        for search in searches
    ]


class _Batch:
    """Rows decoded side by side, all at the same position; at first one for each source."""

    def __init__(self, model: Transformer, sources: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._device = model.embedding.weight.device
        self._dtype = model.embedding.weight.dtype
        lengths = torch.tensor([len(source) for source in sources], device=self._device)
        ids = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(source, device=self._device) for source in sources],
            batch_first=True,
            padding_value=model.config.pad_id,
        )
        self._source_mask = padding_mask(lengths, ids.shape[1], self._dtype)
        self._source = model.encode(ids, self._source_mask)
        self._cache = _RowCache(model.config.decoder_layers)
        self._rows = len(sources)

    def first_tokens(self, prompt: Sequence[int]) -> Tensor:
        """Return the ids that the first step reads, `[rows]`: the last of bos and `prompt`; read the others."""
        *read, last = (self._all(token) for token in (self._model.config.bos_id, *prompt))
        for tokens in read:
            self.step(tokens)
        return last

    def _all(self, token: int) -> Tensor:
        return torch.full((self._rows,), token, device=self._device)

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens [rows]`; return the logits `[rows, vocab]` of the next ones, in float32."""
        position = self._cache.length
        positions = torch.full((self._rows, 1), position, device=self._device)
        mask = look_ahead_mask(positions, position + 1, self._dtype)
        logits = self._model.decode(tokens[:, None], positions, mask, self._source, self._source_mask, self._cache)
        self._cache.length += 1
        return logits[:, -1].float()

    def select(self, parents: Tensor) -> None:
        """Continue row i from row `parents[i]`; rows without a child are dropped.

        As long as the number of rows stays, a row and its parent must have the same source.
        """
        if len(parents) != self._rows:
            self._source = [KV(keys[parents], values[parents]) for keys, values in self._source]
            self._source_mask = self._source_mask[parents]
            self._rows = len(parents)
        self._cache.select(parents)


class _RowCache:
    """Self-attention K/V, or recurrent states, of rows that all have read `length` positions."""

    _GROWTH: Final = 32  # positions; most sentences need no more than one or two allocations

    def __init__(self, layers: int) -> None:
        self.length = 0
        self._layers: list[KV | None] = [None] * layers
        self._states: list[Tensor | None] = [None] * layers

    def update(self, layer: int, new: KV) -> KV:
        kept = self._layers[layer] or KV(new.keys[:, :, :0], new.values[:, :, :0])
        if kept.keys.shape[2] == self.length:
            room = (0, 0, 0, self._GROWTH)  # after the last position
            kept = KV(F.pad(kept.keys, room), F.pad(kept.values, room))
        self._layers[layer] = kept
        for tensor, addition in zip(kept, new, strict=True):
            tensor[:, :, self.length : self.length + 1] = addition
        seen = self.length + 1
        return KV(kept.keys[:, :, :seen], kept.values[:, :, :seen])

    def recur(self, layer: int, keep: Tensor, new: Tensor) -> Tensor:
        before = self._states[layer]
        state = new.float() if before is None else keep.float() * before + new
        self._states[layer] = state
        return state

    def select(self, parents: Tensor) -> None:
        self._states = [state if state is None else state[parents] for state in self._states]
        self._layers = [kept and KV(*(self._selected(tensor, parents) for tensor in kept)) for kept in self._layers]

    def _selected(self, tensor: Tensor, parents: Tensor) -> Tensor:
        rows = len(parents)
        if rows > len(tensor):
            return tensor[parents]
        # In place, and only the rows that move: most hypotheses stay where they are.
        moved = (parents != torch.arange(rows, device=parents.device)).nonzero().squeeze(1)
        tensor[moved, :, : self.length] = tensor[parents[moved], :, : self.length]
        return tensor[:rows]
