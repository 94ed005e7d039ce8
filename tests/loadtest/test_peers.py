"""The peers themselves, on a model of a toy's size: every request gets exactly the tokens it asks for."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from loadtest.compare.dragoman import dragoman, save_random_checkpoint
from loadtest.compare.peers import WrongLength
from loadtest.compare.workload import SHAPES, SHORTEST, make_requests
from model.checkpoint import load_model
from model.config import ModelConfig

TOY = ModelConfig(
    vocab_size=64, d_model=16, ffn_dim=32, num_heads=2, encoder_layers=1, decoder_layers=1, max_positions=128
)


@pytest.mark.parametrize("config", [TOY, SHAPES["small"]], ids=["toy", "small"])
def test_random_weights_never_end_a_sentence(config: ModelConfig, tmp_path: Path) -> None:
    save_random_checkpoint(tmp_path, config)
    source_ids = torch.tensor([request.source_ids[-SHORTEST:] for request in make_requests(16, config, seed=0)])

    with torch.inference_mode():
        logits = load_model(tmp_path)(source_ids, source_ids)

    assert (logits[..., config.eos_id] == 0.0).all()
    assert (logits.amax(dim=-1) > 0.0).all()


def test_dragoman_generates_what_was_asked_for() -> None:
    requests = make_requests(6, TOY, seed=0)
    asked = sum(request.new_tokens for request in requests)

    with dragoman(TOY, threads=1) as peer:
        alone = peer.run(requests, concurrency=1)
        together = peer.run(requests, concurrency=3)

    assert alone.tokens == asked
    assert len(alone.first_token_seconds) == len(together.first_token_seconds) == len(requests)
    assert max(alone.first_token_seconds) < alone.seconds
    # What is generated while the last requests run out, with places unused, is not counted.
    assert 0 < together.tokens < asked


def test_dragoman_refuses_unequal_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadtest.compare.dragoman.save_random_checkpoint", _save_one_that_always_ends)

    with dragoman(TOY, threads=1) as peer, pytest.raises(ExceptionGroup) as caught:
        peer.run(make_requests(1, TOY, seed=0), concurrency=1)

    assert caught.value.subgroup(WrongLength) is not None


def _save_one_that_always_ends(directory: Path, config: ModelConfig) -> None:
    save_random_checkpoint(directory, config)
    weights = load_file(directory / "model.safetensors")
    weights["embedding.weight"][config.eos_id] = 1.0
    weights["decoder_norm.bias"].fill_(100.0)
    save_file(weights, directory / "model.safetensors")


def test_transformers_generates_what_was_asked_for() -> None:
    pytest.importorskip("transformers")
    from loadtest.compare.marian import marian

    requests = make_requests(6, TOY, seed=0)
    with marian(TOY, torch.get_num_threads()) as peer:
        measured = peer.run(requests, concurrency=3)

    assert measured.tokens == sum(request.new_tokens for request in requests)
    assert measured.first_token_seconds == []
