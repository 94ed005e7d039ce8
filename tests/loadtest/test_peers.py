"""The peers themselves, on a model of a toy's size: every request gets exactly the tokens it asks for."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from loadtest.compare.dragoman import dragoman, save_random_checkpoint
from loadtest.compare.peers import WrongLength
from loadtest.compare.workload import make_requests
from model.config import ModelConfig
from tests.loadtest.toy import TOY


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


@pytest.mark.parametrize("name", ["ctranslate2_int8", "ctranslate2_float32"])
def test_ctranslate2_generates_what_was_asked_for(name: str) -> None:
    pytest.importorskip("ctranslate2")
    from loadtest.compare import ctranslate2_peer

    requests = make_requests(12, TOY, seed=0)
    asked = sum(request.new_tokens for request in requests)
    with getattr(ctranslate2_peer, name)(TOY, threads=2) as peer:
        alone = peer.run(requests, concurrency=1)
        together = peer.run(requests, concurrency=3)

    assert alone.tokens == asked
    assert 0 < together.tokens <= asked
    assert alone.first_token_seconds == together.first_token_seconds == []


def test_ctranslate2_refuses_unequal_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    from loadtest.compare.ctranslate2_peer import ctranslate2_int8

    monkeypatch.setattr("loadtest.compare.ctranslate2_peer.save_random_checkpoint", _save_one_that_always_ends)

    with ctranslate2_int8(TOY, threads=1) as peer, pytest.raises(WrongLength):
        peer.run(make_requests(1, TOY, seed=0), concurrency=1)


def test_ctranslate2_shares_requests_out_and_counts_what_runs_by_its_time() -> None:
    pytest.importorskip("ctranslate2")
    from loadtest.compare.ctranslate2_peer import Lanes

    taken: list[int] = []
    requests = make_requests(7, TOY, seed=0)
    lanes = Lanes(lambda batch: taken.append(len(batch)), requests)
    drained = lanes.keep_in_flight(3)

    assert taken == [3, 3, 1]
    # The one left over began when the place of two others was empty.
    assert lanes.tokens_until(drained) == sum(request.new_tokens for request in requests[:6])


def test_ctranslate2_counts_a_batch_under_way_by_its_time() -> None:
    pytest.importorskip("ctranslate2")
    from loadtest.compare.ctranslate2_peer import Batch

    batch = Batch(tokens=80, started=10.0, ended=14.0)

    assert [batch.tokens_until(moment) for moment in (9.0, 10.0, 11.0, 14.0, 20.0)] == [0.0, 0.0, 20.0, 80.0, 80.0]


def test_transformers_generates_what_was_asked_for() -> None:
    pytest.importorskip("transformers")
    from loadtest.compare.marian import marian

    requests = make_requests(6, TOY, seed=0)
    with marian(TOY, torch.get_num_threads()) as peer:
        measured = peer.run(requests, concurrency=3)

    assert measured.tokens == sum(request.new_tokens for request in requests)
    assert measured.first_token_seconds == []
