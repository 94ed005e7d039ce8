"""Imported, a CTranslate2 model translates as CTranslate2 does; unsupported features are reported all at once."""

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from model.checkpoint import load_model
from model.checkpoint_config import ANY, CheckpointError, Direction, load_config, load_tokenizer
from model.config import ModelConfig
from model.decoding import beam_decode
from model.formats import import_checkpoint
from model.quantized_linear import INT8_MAX, quantise_rows
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from tests.conftest import random_model
from tests.model.formats.builders import ENGLISH_FRENCH, refused
from tests.model.formats.conftest import pieces_of

ctranslate2: Any = pytest.importorskip("ctranslate2", reason="pip install 'dragoman[load]'")
from ctranslate2.specs.model_spec import OPTIONAL  # noqa: E402

from loadtest.bench.ctranslate2_model import specification  # noqa: E402

SOURCES = [[5, 9, 40, 41, 7], [300], [17, 230, 231, 18, 19, 100, 101, 102, 103, 104, 105]]


def _spec(tokenizer: Tokenizer, **changes: Any) -> tuple[Any, Transformer]:
    """One of our random models, and as CTranslate2's specification, to be changed and saved."""
    shape = {"vocab_size": 320, "d_model": 32, "ffn_dim": 48, "num_heads": 4, "max_positions": 40}
    model = random_model(ModelConfig(**(shape | {"encoder_layers": 2, "decoder_layers": 3} | changes)))
    # A copy: saving it in int8 changes the weights in place.
    return specification(copy.deepcopy(model), pieces_of(tokenizer)), model


def _save(spec: Any, directory: Path, tokenizer: Tokenizer, quantization: str = "float32") -> Path:
    spec.validate()
    spec.optimize(quantization=quantization)
    directory.mkdir()
    spec.save(str(directory))
    (directory / "sentencepiece.model").write_bytes(tokenizer.files["tokenizer.model"])
    return directory


def _import(directory: Path) -> Transformer:
    import_checkpoint(directory, directory / "ours", ENGLISH_FRENCH)
    return load_model(directory / "ours")


def _translated(directory: Path, tokenizer: Tokenizer, beam_size: int, prefix: str | None = None) -> list[list[int]]:
    """Return what CTranslate2 makes of the sources; every translation begins with `prefix`."""
    pieces = pieces_of(tokenizer)
    translator = ctranslate2.Translator(str(directory), compute_type="float32", intra_threads=1)
    found = translator.translate_batch(
        [[pieces[token] for token in source] for source in SOURCES],
        target_prefix=[[prefix]] * len(SOURCES) if prefix else None,
        beam_size=beam_size,
        length_penalty=1.0,
        max_decoding_length=30,
        return_end_token=True,
    )
    return [[pieces.index(piece) for piece in each.hypotheses[0]] for each in found]


def _assert_same_translations(
    directory: Path, ours: Transformer, tokenizer: Tokenizer, added: Sequence[int] = ()
) -> None:
    """`added` are ids that CTranslate2 adds to a source itself."""
    sources = [[*source, *added] for source in SOURCES]
    for beam_size in (1, 4):
        found = [best.ids for [best] in beam_decode(ours, sources, 30, beam_size)]
        assert found == _translated(directory, tokenizer, beam_size)


@pytest.mark.parametrize("norm_order", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_weights_come_back(norm_order: str, activation: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    spec, original = _spec(tokenizer, norm_order=norm_order, activation=activation)
    ours = _import(_save(spec, tmp_path / "theirs", tokenizer))
    source, target = torch.tensor([SOURCES[0]]), torch.tensor([SOURCES[2]])
    with torch.inference_mode():
        torch.testing.assert_close(ours(source, target), original(source, target), rtol=0, atol=1e-5)
    _assert_same_translations(tmp_path / "theirs", ours, tokenizer)
    assert load_config(tmp_path / "theirs" / "ours").directions == (Direction(source="en", target="fr"),)


def test_positions_that_ctranslate2_computes(tmp_path: Path, tokenizer: Tokenizer) -> None:
    spec, _ = _spec(tokenizer)
    spec.encoder.position_encodings.encodings = spec.decoder.position_encodings.encodings = OPTIONAL
    directory = _save(spec, tmp_path / "theirs", tokenizer)
    _assert_same_translations(directory, _import(directory), tokenizer)


def test_embeddings_of_their_own_and_layers_without_bias(tmp_path: Path, tokenizer: Tokenizer) -> None:
    spec, _ = _spec(tokenizer)
    generator = torch.Generator().manual_seed(1)
    spec.decoder.embeddings.weight = torch.randn(320, 32, generator=generator)
    spec.decoder.projection.weight = torch.randn(320, 32, generator=generator)
    spec.decoder.projection.bias = torch.randn(320, generator=generator)
    spec.decoder.layer[1].ffn.linear_0.bias = OPTIONAL
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = False
    directory = _save(spec, tmp_path / "theirs", tokenizer)
    _assert_same_translations(directory, _import(directory), tokenizer)


@pytest.mark.parametrize("scale", [True, False, 1.0, 32**0.5])
@pytest.mark.parametrize("quantization", ["float32", "bfloat16"])
def test_the_scale_of_embeddings_is_a_flag_or_a_number(
    scale: float, quantization: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    spec, _ = _spec(tokenizer)
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = scale
    spec.config.add_source_eos = True  # as fairseq's
    directory = _save(spec, tmp_path / "theirs", tokenizer, quantization)
    _assert_same_translations(directory, _import(directory), tokenizer, [tokenizer.eos_id])


def test_the_epsilon_of_norms_is_the_models_own(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """OpenNMT's converter says 1e-6."""
    spec, _ = _spec(tokenizer)
    spec.config.layer_norm_epsilon = 0.3
    directory = _save(spec, tmp_path / "theirs", tokenizer)
    ours = _import(directory)
    assert ours.config.norm_epsilon == 0.3
    _assert_same_translations(directory, ours, tokenizer)


def test_a_broken_tokenizer_is_no_traceback(tmp_path: Path, tokenizer: Tokenizer) -> None:
    directory = _save(_spec(tokenizer)[0], tmp_path / "theirs", tokenizer)
    for name in ("sentencepiece.model", "tokenizer.json"):
        (directory / name).write_bytes(b"{}")
        with pytest.raises(CheckpointError):
            import_checkpoint(directory, tmp_path / "ours", ENGLISH_FRENCH)


def test_a_text_cannot_have_a_piece_without_a_row(tmp_path: Path, tokenizer: Tokenizer) -> None:
    directory = _save(_spec(tokenizer)[0], tmp_path / "theirs", tokenizer)
    path = directory / "shared_vocabulary.json"
    words = json.loads(path.read_bytes())
    path.write_text(json.dumps([*words, "<mask>"]))
    _import(directory)
    path.write_text(json.dumps([*words[:-1], "<mask>", words[-1]]))
    refused(directory, "the tokenizer has the source piece 320, the model 320 of them")


@pytest.mark.parametrize("sides", [{"encoder": 2.5}, {"encoder": 1.0}, {"decoder": 0.0}])
def test_another_scale_of_embeddings_is_refused(sides: dict[str, float], tmp_path: Path, tokenizer: Tokenizer) -> None:
    spec, _ = _spec(tokenizer)
    for side, scale in sides.items():
        getattr(spec, side).scale_embeddings = scale
    directory = _save(spec, tmp_path / "theirs", tokenizer)
    refused(directory, r"not supported: .*scale_embeddings is")


@pytest.mark.parametrize("quantization", ["float16", "bfloat16", "int8", "int8_float16", "int8_bfloat16"])
def test_weights_of_other_types(quantization: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    spec, original = _spec(tokenizer)
    ours = _import(_save(spec, tmp_path / "theirs", tokenizer, quantization))
    for name, tensor in original.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], tensor, rtol=0.01, atol=0.02)
    inner = ours.state_dict()["encoder.0.feed_forward.inner.weight"]
    scale = inner.abs().amax(dim=1, keepdim=True) / 127
    is_whole = torch.allclose(inner / scale, (inner / scale).round(), rtol=0, atol=1e-3)
    assert is_whole == ("int8" in quantization)


@pytest.mark.parametrize("tied", [True, False])
def test_int8_stays_what_it_is(tied: bool, tmp_path: Path, tokenizer: Tokenizer) -> None:
    """The file keeps CTranslate2's integers, and our own int8 makes the same ones of what is loaded."""
    spec, _ = _spec(tokenizer)
    if not tied:
        spec.decoder.projection.weight = torch.randn(320, 32, generator=torch.Generator().manual_seed(1))
    directory = _save(spec, tmp_path / "theirs", tokenizer, "int8")
    state = _import(directory).state_dict()
    stored = load_file(directory / "ours" / "model.safetensors")
    matrices = [name for name, tensor in stored.items() if tensor.dtype == torch.int8]
    linears = {name for name, tensor in state.items() if tensor.dim() == 2 and not name.endswith("table")}
    assert {*matrices} == linears - ({"projection.weight"} if tied else set())
    for name in matrices:
        assert torch.equal(state[name], stored[name] / stored[f"{name}.scale"][:, None])
        ours, _ = quantise_rows(state[name], INT8_MAX)
        assert torch.equal(ours.to(torch.int8), stored[name])


def test_all_that_is_not_supported_is_named_at_once(tmp_path: Path, tokenizer: Tokenizer) -> None:
    spec, _ = _spec(tokenizer)
    spec.decoder.alibi = True
    spec.decoder.pre_norm = False
    spec.decoder.final_logit_softcapping = np.float32(30)
    directory = _save(spec, tmp_path / "theirs", tokenizer)
    message = (
        "not supported: decoder/alibi is 1; decoder/final_logit_softcapping is 30.0; "
        "encoder/pre_norm is 1 but decoder/pre_norm is 0"
    )
    refused(directory, message)


def test_weights_that_are_left_over_or_missing_are_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    directory = _save(_spec(tokenizer)[0], tmp_path / "theirs", tokenizer)
    path = directory / "model.bin"
    path.write_bytes(
        path.read_bytes().replace(b"encoder/layer_1/ffn/layer_norm/beta", b"encoder/layer_1/ffn/layer_norm/bete")
    )
    refused(directory, r"missing .*layer_norm/beta; unexpected .*layer_norm/bete")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:5000], "ends too early"),
        (lambda content: content + b"x", "1 bytes are left over"),
        (lambda content: b"\x63" + content[1:], "of a known version: 99"),
        (lambda content: content.replace(b"TransformerSpec\0", b"TransformerDeco\0", 1), "is a TransformerDeco"),
        (lambda content: b"", "model.bin: "),
        (lambda content: b"GIF89a" * 20, "model.bin: "),
    ],
)
def test_broken_files(damage: Any, message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    directory = _save(_spec(tokenizer)[0], tmp_path / "theirs", tokenizer)
    path = directory / "model.bin"
    path.write_bytes(damage(path.read_bytes()))
    refused(directory, message)


def test_languages_and_tokenizer_have_to_be_known(tmp_path: Path, tokenizer: Tokenizer) -> None:
    directory = _save(_spec(tokenizer)[0], tmp_path / "theirs", tokenizer)
    refused(directory, "do not say its languages", ANY)
    (directory / "sentencepiece.model").unlink()
    refused(directory, r"neither sentencepiece\.model nor")


def test_an_argos_package_may_say_what_a_translation_begins_with(tmp_path: Path, tokenizer: Tokenizer) -> None:
    spec, _ = _spec(tokenizer)
    directory = _save(spec, tmp_path / "model", tokenizer)
    piece = pieces_of(tokenizer)[17]
    package = {"from_code": "en", "to_code": "fr", "target_prefix": piece}
    (tmp_path / "metadata.json").write_text(json.dumps(package))
    ours = _import(directory)
    prompt = load_tokenizer(directory / "ours").target_prefix("fr", "en")
    assert prompt == [17]
    found = [[17, *best.ids] for [best] in beam_decode(ours, SOURCES, 29, 4, prompt=prompt)]
    assert found == _translated(directory, tokenizer, 4, piece)
    (tmp_path / "metadata.json").write_text(json.dumps(package | {"target_prefix": "__nothing__"}))
    refused(directory, "target_prefix '__nothing__' is not a piece of the model")
