"""Converted checkpoints give what ours give, token for token."""

import random
from pathlib import Path

import pytest
import torch

from model.checkpoint import save_checkpoint
from model.checkpoint_config import CheckpointConfig, Direction
from model.config import Activation, ModelConfig, NormOrder
from model.decoding import beam_decode, greedy_decode
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from tests.conftest import random_model

ctranslate2 = pytest.importorskip("ctranslate2")
from loadtest.bench.ctranslate2_model import convert, pieces  # noqa: E402

MOST_TOKENS = 40


def _save(directory: Path, model: Transformer, tokenizer: Tokenizer) -> None:
    manifest = CheckpointConfig(directions=(Direction(source="en", target="fr"),), model=model.config)
    save_checkpoint(directory, manifest, model.state_dict(), tokenizer, torch.float32)


def _sources(config: ModelConfig) -> list[list[int]]:
    generator = random.Random(0)
    words = range(3, config.vocab_size)
    return [[*generator.choices(words, k=length), config.eos_id] for length in range(1, 25)]


def _translate(checkpoint: Path, directory: Path, sources: list[list[int]], beam_size: int) -> list[list[int]]:
    tokens = pieces(checkpoint)
    translator = ctranslate2.Translator(str(directory), compute_type="float32", intra_threads=1)
    results = translator.translate_batch(
        [[tokens[token_id] for token_id in source] for source in sources],
        beam_size=beam_size,
        length_penalty=1.0,
        max_decoding_length=MOST_TOKENS,
        return_end_token=True,
    )
    return [[tokens.index(token) for token in result.hypotheses[0]] for result in results]


@pytest.mark.parametrize(("norm_order", "activation"), [("pre", "relu"), ("pre", "gelu"), ("post", "swish")])
def test_outputs_are_equal(
    norm_order: NormOrder, activation: Activation, config: ModelConfig, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    config = config.model_copy(update={"norm_order": norm_order, "activation": activation})
    model = random_model(config)
    _save(tmp_path, model, tokenizer)
    convert(tmp_path, tmp_path / "converted", "float32")
    sources = _sources(config)

    greedy = _translate(tmp_path, tmp_path / "converted", sources, beam_size=1)
    beams = _translate(tmp_path, tmp_path / "converted", sources, beam_size=4)

    assert greedy == greedy_decode(model, sources, MOST_TOKENS)
    assert beams == [best.ids for (best,) in beam_decode(model, sources, MOST_TOKENS, beam_size=4)]
    # Otherwise the comparison would say little.
    assert len({tuple(output) for output in greedy}) > len(sources) // 2


def test_every_id_has_a_name_of_its_own(config: ModelConfig, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The tokenizer may have fewer pieces than the model has ids, or more."""
    for vocab_size in (config.vocab_size, len(tokenizer) + 100):
        _save(tmp_path, Transformer(config.model_copy(update={"vocab_size": vocab_size})), tokenizer)

        assert len(set(pieces(tmp_path))) == vocab_size
