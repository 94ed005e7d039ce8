"""Loading is strict, and says everything that is wrong."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoint import load_model, load_shortlist, save_checkpoint, scale_of
from model.checkpoint_config import (
    CheckpointConfig,
    CheckpointError,
    Direction,
    content_id,
    load_config,
    load_tokenizer,
    sha256_of,
)
from model.config import ModelConfig
from model.int8_weights import int8_weights
from model.shortlist import Shortlist
from model.tokenizer import Tokenizer
from tests.conftest import forget_sums, random_model
from tests.shortlists import random_shortlist

ENGLISH_FRENCH = (Direction(source="en", target="fr"),)


def _save_with_shortlist(directory: Path, config: ModelConfig, tokenizer: Tokenizer) -> Shortlist:
    described, shortlist = CheckpointConfig(directions=ENGLISH_FRENCH, model=config), random_shortlist(config)
    save_checkpoint(directory, described, random_model(config).state_dict(), tokenizer, shortlist=shortlist)
    return shortlist


@pytest.fixture
def checkpoint(tmp_path: Path, config: ModelConfig, tokenizer: Tokenizer) -> Path:
    described = CheckpointConfig(directions=ENGLISH_FRENCH, model=config)
    save_checkpoint(tmp_path, described, random_model(config).state_dict(), tokenizer, torch.float32)
    return tmp_path


@pytest.fixture
def unverified(checkpoint: Path) -> Path:
    forget_sums(checkpoint)
    return checkpoint


def test_round_trip(checkpoint: Path, config: ModelConfig) -> None:
    loaded, expected = load_model(checkpoint), random_model(config)
    for name, tensor in expected.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], tensor, rtol=0, atol=0)
    assert not loaded.training
    assert loaded.projection.weight is loaded.embedding.weight
    assert load_config(checkpoint).model == config
    assert len(load_tokenizer(checkpoint)) == 320
    assert (checkpoint / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_no_random_numbers_are_drawn(checkpoint: Path) -> None:
    before = torch.get_rng_state()
    load_model(checkpoint)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_shortlist_is_read_as_it_was_written(tmp_path: Path, config: ModelConfig, tokenizer: Tokenizer) -> None:
    shortlist = _save_with_shortlist(tmp_path, config, tokenizer)
    assert load_config(tmp_path).has_shortlist
    loaded = load_shortlist(tmp_path)
    assert loaded is not None
    assert all(torch.equal(*pair) for pair in zip(loaded, shortlist, strict=True))
    load_model(tmp_path)
    load_tokenizer(tmp_path)
    path = tmp_path / "shortlist.safetensors"
    assert path.stat().st_mode & 0o777 == 0o644
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match=r"shortlist\.safetensors: its SHA-256 is not"):
        load_shortlist(tmp_path)


def test_without_a_shortlist_there_is_none(checkpoint: Path) -> None:
    assert load_shortlist(checkpoint) is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"more": torch.zeros(1)}, "has always, more, offsets, words, expected always, offsets, words"),
        ({"always": torch.tensor([97], dtype=torch.int32)}, "it has a word that is none of the 97 of the target"),
    ],
)
def test_a_shortlist_of_another_kind(
    tmp_path: Path, config: ModelConfig, tokenizer: Tokenizer, changes: dict[str, torch.Tensor], problem: str
) -> None:
    shortlist = _save_with_shortlist(tmp_path, config, tokenizer)
    path = tmp_path / "shortlist.safetensors"
    save_file(shortlist._asdict() | changes, path)
    sums = load_config(tmp_path).sha256 | {path.name: sha256_of(path)}
    (tmp_path / "config.json").write_text(load_config(tmp_path).model_copy(update={"sha256": sums}).model_dump_json())
    with pytest.raises(CheckpointError, match=rf"shortlist\.safetensors: {problem}"):
        load_shortlist(tmp_path)


def test_what_has_no_sums_is_read_too(unverified: Path) -> None:
    assert not load_config(unverified).sha256
    assert len(load_tokenizer(unverified)) == 320
    load_model(unverified)


def test_sums_are_of_what_was_saved_last(checkpoint: Path, config: ModelConfig, tokenizer: Tokenizer) -> None:
    before = load_config(checkpoint)
    written = save_checkpoint(checkpoint, before, random_model(config, seed=1).state_dict(), tokenizer)
    assert load_config(checkpoint) == written
    changed = {name for name in written.sha256 if written.sha256[name] != before.sha256[name]}
    assert (set(written.sha256), changed) == ({"model.safetensors", "tokenizer.model"}, {"model.safetensors"})
    load_model(checkpoint)


def test_tokenizer_files_are_those_that_were_written(checkpoint: Path) -> None:
    added = checkpoint / "vocabulary.json"
    added.write_text("[]")
    with pytest.raises(CheckpointError, match=r"vocabulary\.json: its SHA-256 is not"):
        load_tokenizer(checkpoint)
    added.unlink()
    load_tokenizer(checkpoint)
    (checkpoint / "tokenizer.model").unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: .*No such file"):
        load_tokenizer(checkpoint)


def test_the_tied_weight_is_stored_once(checkpoint: Path) -> None:
    assert "projection.weight" not in load_file(checkpoint / "model.safetensors")


def test_all_wrong_weights_are_listed(unverified: Path) -> None:
    path = unverified / "model.safetensors"
    weights = load_file(path)
    del weights["encoder_norm.bias"]
    weights["extra"] = torch.zeros(1)
    weights["decoder_norm.bias"] = torch.zeros(3)
    save_file(weights, path)
    with pytest.raises(
        CheckpointError,
        match=r"decoder_norm.bias is \[3\], expected \[32\]; missing encoder_norm.bias; unexpected extra",
    ):
        load_model(unverified)


def test_matrices_in_int8_have_scales(unverified: Path) -> None:
    path, name = unverified / "model.safetensors", "encoder.0.feed_forward.inner.weight"
    weights = load_file(path)
    whole = torch.arange(weights[name].numel()).remainder(255).sub(127).to(torch.int8).view(weights[name].shape)
    scale = torch.arange(1.0, 1.0 + len(whole))
    save_file(weights | {name: whole, scale_of(name): scale}, path)
    assert torch.equal(load_model(unverified).state_dict()[name], whole / scale[:, None])
    for wrong, problem in (
        ({name: whole}, f"{name} is torch.int8 and has no scale"),
        ({scale_of(name): scale}, f"{name} is torch.float32 and has a scale"),
        ({name: whole, scale_of(name): scale[1:]}, rf"{name}.scale is \[63\], expected \[64\]"),
        ({name: whole, scale_of(name): 0 * scale}, f"{name} has a number that is not finite"),
        ({scale_of("extra"): scale}, "unexpected extra.scale"),
    ):
        save_file(weights | wrong, path)
        with pytest.raises(CheckpointError, match=problem):
            load_model(unverified)


def test_weights_are_stored_in_int8(tmp_path: Path, config: ModelConfig, tokenizer: Tokenizer) -> None:
    """The integers, and so the engine's int8 layers, are those that the unrounded matrices would give."""
    described = CheckpointConfig(directions=ENGLISH_FRENCH, model=config)
    model = random_model(config)
    for name in ("int8", "float32"):
        save_checkpoint(tmp_path / name, described, model.state_dict(), tokenizer, getattr(torch, name))
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("int8", "float32")]
    assert sizes[0] < sizes[1] / 2
    rounded = dict(int8_weights(load_model(tmp_path / "int8")))
    for name, expected in int8_weights(load_model(tmp_path / "float32")):
        if expected.dtype == torch.int8:
            assert torch.equal(rounded[name], expected), name
        else:
            torch.testing.assert_close(rounded[name], expected, rtol=1e-3, atol=expected.abs().max().item() / 127)


def test_numbers_that_are_not_finite_are_named(unverified: Path) -> None:
    path = unverified / "model.safetensors"
    weights = load_file(path)
    weights["decoder_norm.weight"][3] = torch.nan
    weights["encoder_norm.bias"][0] = torch.inf
    save_file(weights, path)
    with pytest.raises(CheckpointError, match=r"decoder_norm.weight has a .* not finite; encoder_norm.bias has a"):
        load_model(unverified)


def test_not_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        load_config(tmp_path)


def test_config_problems_name_their_fields(checkpoint: Path) -> None:
    path = checkpoint / "config.json"
    path.write_text(path.read_text().replace('"num_heads"', '"heads"').replace('"en"', '"English"'))
    with pytest.raises(CheckpointError, match=r"directions\.0\.source: .*; model\.heads: "):
        load_config(checkpoint)


def test_the_id_of_a_checkpoint_is_that_of_its_content(checkpoint: Path) -> None:
    """Times count only without sums in `config.json`."""
    weights = checkpoint / "model.safetensors"
    whole = content_id(checkpoint)
    os.utime(weights, ns=(0, 0))
    assert content_id(checkpoint) == whole
    path = checkpoint / "config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"max_sentence_tokens": 16}))
    assert content_id(checkpoint) != whole
    forget_sums(checkpoint)
    unverified = content_id(checkpoint)
    os.utime(weights, ns=(1, 1))
    assert content_id(checkpoint) != unverified
