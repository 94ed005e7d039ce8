"""Scores of a checkpoint on a test set, with sacrebleu so that they compare with published ones."""

from itertools import islice
from pathlib import Path

import torch
from rich.progress import track
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from model.checkpoint import load_model
from model.decoding import greedy_decode
from model.manifest import load_tokenizer
from model.training.data import read_pairs

_BATCH = 64


def evaluate(checkpoint: Path, test: Path, limit: int | None = None) -> list[str]:
    """BLEU and chrF of greedy translations, each with its signature.

    Raises `CheckpointError`, `CorpusError`, and `ValueError` for a sentence over the model's length.
    """
    model = load_model(checkpoint)
    tokenizer = load_tokenizer(checkpoint)
    pairs = list(islice(read_pairs(test), limit))
    sources = tokenizer.encode_batch([pair.source for pair in pairs])
    longest = model.config.max_positions
    too_long = [number for number, source in enumerate(sources, start=1) if len(source) > longest]
    if too_long:
        raise ValueError(f"{test}: lines {too_long} have more than {longest} tokens, the model's limit")
    # Alike lengths together, the longest first: little padding, and the time left is not underestimated.
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
    hypotheses = [""] * len(sources)
    with torch.inference_mode():
        for batch in track(batches, description="translating"):
            for i, ids in zip(batch, greedy_decode(model, [sources[i] for i in batch], longest), strict=True):
                hypotheses[i] = tokenizer.decode(ids)
    references = [[pair.target for pair in pairs]]
    scores = []
    for metric in (BLEU(), CHRF()):
        score = metric.corpus_score(hypotheses, references)
        scores.append(f"{score}  {metric.get_signature()}")
    return scores
