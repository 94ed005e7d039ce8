"""The peers themselves, on a model of a toy's size: every request gets exactly the tokens it asks for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from loadtest.bench.peers import Peer, WrongLength
from loadtest.bench.roster import ENTRIES, prepare
from loadtest.bench.workload import make_requests
from model.quantized_linear import Int8Linear
from service.engine.modes import MODES
from tests.conftest import forget_sums
from tests.loadtest.bench.toy import COMPARISON, TOY

OTHERS = ["ctranslate2", "ctranslate2-fp32", "transformers"]
REQUESTS = make_requests(12, TOY, seed=0)
ASKED = sum(request.new_tokens for request in REQUESTS)


@contextmanager
def _open(name: str, models: Path, mode: str = "fp32") -> Iterator[Peer]:
    entry = ENTRIES[name]
    if entry.package is not None:
        pytest.importorskip(entry.package)
    prepare([name], TOY, models)
    with entry.open(replace(COMPARISON, cores=2, mode=mode, replicas=2, slots=3), models) as peer:
        yield peer


@pytest.mark.parametrize(
    "mode", [mode if mode == "int8" else pytest.param(mode, marks=pytest.mark.slow) for mode in MODES]
)
def test_dragoman(mode: str, tmp_path: Path) -> None:
    if mode == "int8" and not Int8Linear.is_available():
        pytest.skip("no int8 here")
    with _open("dragoman", tmp_path, mode) as peer:
        lengths = peer.lengths([request.source_ids for request in REQUESTS])
        alone = peer.closed_loop(REQUESTS, 1)
        together = peer.closed_loop(REQUESTS, 3)

    assert lengths == [request.new_tokens for request in REQUESTS]
    assert alone.tokens == ASKED
    # What is generated while the last requests run out, with places unused, is not counted.
    assert 0 < together.tokens < ASKED
    for measured in (alone, together):
        assert [1 + len(answer.gaps) for answer in measured.answers] == lengths
    # One after the other: no wait is outside of the whole.
    assert sum(answer.first_token_seconds + sum(answer.gaps) for answer in alone.answers) < alone.seconds


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str, tmp_path: Path) -> None:
    with _open(name, tmp_path) as peer:
        lengths = peer.lengths([request.source_ids for request in REQUESTS])
        alone = peer.closed_loop(REQUESTS, 1)
        together = peer.closed_loop(REQUESTS, 3)

    assert name == "transformers" or lengths == [request.new_tokens for request in REQUESTS]
    assert alone.tokens == ASKED
    assert 0 < together.tokens <= ASKED
    for measured in (alone, together):
        assert len(measured.answers) == len(REQUESTS)


@pytest.mark.parametrize("name", ["dragoman", "ctranslate2"])
def test_unequal_work_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loadtest.bench import weights

    save = weights.save_random_checkpoint

    def save_one_that_always_ends(directory: Path, config: object) -> None:
        save(directory, TOY)
        tensors = load_file(directory / "model.safetensors")
        tensors["embedding.weight"][TOY.eos_id] = 1.0
        tensors["decoder_norm.bias"].fill_(100.0)
        save_file(tensors, directory / "model.safetensors")
        forget_sums(directory)

    monkeypatch.setattr(weights, "save_random_checkpoint", save_one_that_always_ends)
    refused = pytest.raises(WrongLength, match=rf"{name}: \d+ tokens for")
    with _open(name, tmp_path) as peer, refused:
        peer.closed_loop(REQUESTS, 2)


def test_ctranslate2_is_held_to_a_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    from loadtest.bench.ctranslate2_peer import hold_to

    for name in ("CT2_FORCE_CPU_ISA", "ONEDNN_MAX_CPU_ISA"):
        monkeypatch.setenv(name, "its own choice")
    hold_to("auto")
    assert os.environ["CT2_FORCE_CPU_ISA"] == os.environ["ONEDNN_MAX_CPU_ISA"] == "its own choice"
    hold_to("avx512vnni")
    assert (os.environ["CT2_FORCE_CPU_ISA"], os.environ["ONEDNN_MAX_CPU_ISA"]) == ("AVX512", "AVX512_CORE_VNNI")
