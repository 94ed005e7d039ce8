"""`transformers` as a peer: MarianMTModel.generate, greedy, in static batches, as a hand-written route would call it.

Same layers, widths, heads and vocabulary as Dragoman's model, but not the same weights: Marian
normalises after each sublayer, ours before, so no weights fit both. Both are random and neither can
generate eos, so each request takes exactly as many tokens as it requests. A static batch computes every row
until its longest is done; only requested tokens are counted.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from transformers import MarianConfig, MarianMTModel

from loadtest.bench.peers import Peer, WrongLength
from loadtest.bench.static import StaticBatching
from loadtest.bench.workload import MOST_TOKENS, Request
from model.config import ModelConfig


@contextmanager
def open_marian(
    config: ModelConfig, threads: int, device: str = "cpu", dtype: Literal["float32", "bfloat16"] = "float32"
) -> Iterator[Peer]:
    """Open the model in this process, one batch at a time; on a CPU torch has `threads` threads."""
    torch.set_num_threads(threads)
    model = _random_model(config).to(device, getattr(torch, dtype))
    yield _Marian(model, config.pad_id)


def marian_config(config: ModelConfig) -> MarianConfig:
    """Return Marian's config for the same shape."""
    return MarianConfig(
        vocab_size=config.vocab_size,
        d_model=config.d_model,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        encoder_ffn_dim=config.ffn_dim,
        decoder_ffn_dim=config.ffn_dim,
        encoder_attention_heads=config.num_heads,
        decoder_attention_heads=config.num_heads,
        max_position_embeddings=config.max_positions,
        activation_function=config.activation,
        scale_embedding=True,
        pad_token_id=config.pad_id,
        eos_token_id=config.eos_id,
        decoder_start_token_id=config.bos_id,
        forced_eos_token_id=None,
    )


def _random_model(config: ModelConfig) -> Any:
    torch.manual_seed(0)
    # Any: the annotations of `generate` do not accept transformers' own model classes.
    model: Any = MarianMTModel(marian_config(config))
    model.final_logits_bias[0, config.eos_id] = -torch.inf
    return model.eval()


class _Marian(StaticBatching):
    def __init__(self, model: Any, pad_id: int) -> None:
        super().__init__(self._generate, workers=1)
        self._model = model
        self._pad_id = pad_id

    def lengths(self, sources: Sequence[list[int]]) -> list[int]:
        return [MOST_TOKENS] * len(sources)  # it never ends by itself

    def _generate(self, batch: Sequence[Request]) -> None:
        sources = [torch.tensor(request.source_ids) for request in batch]
        padded = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=self._pad_id)
        source_ids = padded.to(self._model.device)
        longest = max(request.new_tokens for request in batch)
        generated = self._model.generate(
            input_ids=source_ids,
            attention_mask=(source_ids != self._pad_id).long(),
            max_new_tokens=longest,
            do_sample=False,
            num_beams=1,
            use_cache=True,
        ).cpu()  # the answer is there when a client has it
        # The first column is the decoder's start token.
        if generated.shape[1] - 1 != longest:
            raise WrongLength(f"transformers: {generated.shape[1] - 1} tokens for a batch of {longest}")
