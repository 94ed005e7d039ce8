"""Weights that end each request at its own length."""

import random
from pathlib import Path
from typing import get_args

import pytest
import torch

from loadtest.bench.stopping import stop_at_length_words
from loadtest.bench.weights import Shape, save_random_checkpoint, shape_config
from loadtest.bench.workload import LONGEST, SHORTEST, length_word
from model.checkpoint import load_model
from model.config import ModelConfig
from model.decoding import beam_decode, greedy_decode
from model.quantized_linear import Int8Linear, replace_linears
from model.transformer import Transformer
from tests.loadtest.bench.toy import TOY

LENGTHS = list(range(SHORTEST, LONGEST + 1))
SMALL = ModelConfig(vocab_size=8000, d_model=256, ffn_dim=1024, num_heads=4, encoder_layers=6, decoder_layers=2)


def _sources(config: ModelConfig, lengths: list[int]) -> list[list[int]]:
    """Make sources of any length, whatever the target's; they end with eos."""
    generator = random.Random(0)
    words = range(1 + length_word(config, LONGEST), config.vocab_size)
    return [
        [length_word(config, length), *generator.choices(words, k=generator.randrange(3, LONGEST)), config.eos_id]
        for length in lengths
    ]


@pytest.mark.parametrize("shape", get_args(Shape))
def test_every_shape_holds_the_longest_request(shape: Shape) -> None:
    assert shape_config(shape).max_positions >= LONGEST


@pytest.mark.parametrize("mode", ["fp32", "int8"])
@pytest.mark.parametrize(("config", "lengths"), [(TOY, LENGTHS), (SMALL, LENGTHS[::15])], ids=["toy", "small"])
def test_length_words_are_obeyed(config: ModelConfig, lengths: list[int], mode: str, tmp_path: Path) -> None:
    save_random_checkpoint(tmp_path, config)
    model = load_model(tmp_path)
    if mode == "int8":
        replace_linears(model, Int8Linear)

    outputs = greedy_decode(model, _sources(config, lengths), LONGEST + 1)

    assert [len(output) for output in outputs] == lengths
    assert all(output[-1] == config.eos_id for output in outputs)


def test_beams_end_there_too() -> None:
    torch.manual_seed(0)
    model = Transformer(TOY).eval()
    stop_at_length_words(model)
    lengths = [SHORTEST, 17, LONGEST]

    results = beam_decode(model, _sources(TOY, lengths), LONGEST + 1, beam_size=4)

    assert [len(best.ids) for (best,) in results] == lengths
