"""Loads corpora as weighted parts and trains the tokenizer."""

import io
import logging
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece
from rich.progress import track

from model.case_marks import CASE_MARKS, mark_text
from model.checkpoint_config import Direction
from model.tokenizer import Tokenizer, language_tag
from model.training.config import Corpus, TokenizerConfig, TrainConfig
from model.training.corpora import Pair, load_corpus, validation_marks

logger = logging.getLogger(__name__)


class Part(NamedTuple):
    """Pairs of one direction from one corpus, each to be seen `repeat` times an epoch."""

    name: str
    pairs: list[Pair]
    direction: Direction
    repeat: float


def load_parts(
    corpora: list[Corpus], config: TrainConfig, directory: Path, validated: Collection[Part] = ()
) -> list[Part]:
    """Load the pairs of each corpus, in both directions where it says so, without those in or close to `validated`.

    Logs how many pairs the filters dropped, by reason.
    """
    parts = []
    seen: set[int] = set()
    marks = {
        mark for part in validated for pair in part.pairs for mark in validation_marks(pair, part.direction.codes())
    }
    for corpus in track(corpora, description="reading corpora", disable=not os.isatty(2)):
        pairs, dropped = load_corpus(corpus, config, directory, seen, marks)
        logger.info("%s: %d pairs %s", corpus.path.name, len(pairs), dict(dropped.most_common()) or "")
        source, target = config.languages(corpus)
        name = corpus.path.name.partition(".")[0]
        parts.append(Part(name, pairs, Direction(source=source, target=target), corpus.repeat))
        if corpus.both_directions:
            turned = [Pair(pair.target, pair.source) for pair in pairs]
            parts.append(Part(name, turned, Direction(source=target, target=source), corpus.repeat))
    return parts


def train_tokenizer(
    sentences: list[str],
    options: TokenizerConfig,
    seed: int,
    target_languages: Collection[str] = (),
    sample: int = 400_000,
) -> Tokenizer:
    """Train a SentencePiece unigram model for all languages; bytes stand in for rare characters.

    With several target languages it has a tag for each. Raises `ValueError` where the text is too little for the size.
    """
    if len(sentences) > sample:
        order = np.random.default_rng(seed).permutation(len(sentences))[:sample]
        sentences = [sentences[i] for i in order]
    tags = [language_tag(language) for language in sorted(target_languages)]
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(mark_text, sentences) if options.case_marks else iter(sentences),
            model_writer=written,
            vocab_size=options.vocab_size,
            control_symbols=tags if len(tags) > 1 else [],
            user_defined_symbols=list(CASE_MARKS) if options.case_marks else [],
            # `mark_text` puts the first space, before which a mark may stand, and makes all others single.
            add_dummy_prefix=not options.case_marks,
            remove_extra_whitespaces=not options.case_marks,
            split_digits=options.split_digits,
            model_type="unigram",
            byte_fallback=True,
            character_coverage=0.9998,
            pad_id=0,
            bos_id=1,
            eos_id=2,
            unk_id=3,
            minloglevel=1,
        )
    except RuntimeError as error:
        # Too little text for the vocabulary size; the message begins with a C++ location, which is cut off.
        raise ValueError(f"tokenizer.vocab_size: {str(error).rpartition('] ')[2]}") from None
    return Tokenizer.from_sentencepiece(written.getvalue())
