"""CTranslate2 as a peer, greedy, on Dragoman's own weights: a translator for each core, with one thread each.

That is its best setting here; one translator with several threads is slower. It batches what comes in one call and
takes nothing into a running batch. Rows that have ended leave their batch.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import ctranslate2

from loadtest.bench.peers import Peer, WrongLength
from loadtest.bench.static import StaticBatching
from loadtest.bench.workload import MOST_TOKENS, Request

_INSTRUCTIONS: Final = {
    "avx2": ("AVX2", "AVX2"),
    "avxvnni": ("AVX2", "AVX2_VNNI"),
    "avx512vnni": ("AVX512", "AVX512_CORE_VNNI"),
}
"""Dragoman's variants, and their instruction sets in CTranslate2's own code and in oneDNN, which has its products."""


def hold_to(cpu_variant: str) -> None:
    """Keep CTranslate2 in this process to the instruction set of a variant of Dragoman's, before its first use."""
    if cpu_variant in _INSTRUCTIONS:
        os.environ["CT2_FORCE_CPU_ISA"], os.environ["ONEDNN_MAX_CPU_ISA"] = _INSTRUCTIONS[cpu_variant]


@contextmanager
def open_ctranslate2(model: Path, compute_type: str, cores: int) -> Iterator[Peer]:
    """Open CTranslate2 in this process, on a model that `ctranslate2_model.convert` has written."""
    translator = ctranslate2.Translator(str(model), compute_type=compute_type, inter_threads=cores, intra_threads=1)
    # Not the checkpoint's tokenizer: reading that would load torch, and with it memory that is not CTranslate2's.
    tokens: list[str] = json.loads((model / "shared_vocabulary.json").read_text(encoding="utf-8"))
    yield _CTranslate2(translator, tokens, cores)
    translator.unload_model()


class _CTranslate2(StaticBatching):
    def __init__(self, translator: Any, tokens: Sequence[str], cores: int) -> None:
        super().__init__(self._translate, workers=cores)
        self._translator = translator
        self._tokens = tokens

    def lengths(self, sources: Sequence[list[int]]) -> list[int]:
        results = self._translator.translate_batch(
            [[self._tokens[token_id] for token_id in source_ids] for source_ids in sources],
            beam_size=1,
            max_decoding_length=MOST_TOKENS,
            return_end_token=True,
        )
        return [len(result.hypotheses[0]) for result in results]

    def _translate(self, batch: Sequence[Request]) -> None:
        lengths = self.lengths([request.source_ids for request in batch])
        for request, length in zip(batch, lengths, strict=True):
            if length != request.new_tokens:
                raise WrongLength(f"ctranslate2: {length} tokens for a request of {request.new_tokens}")
