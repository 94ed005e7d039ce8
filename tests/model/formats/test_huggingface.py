"""Imported, a model of transformers computes what transformers computes: logits, greedy and beam search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoint import load_model
from model.checkpoint_config import ANY, load_config, load_tokenizer
from model.decoding import beam_decode, greedy_decode
from model.formats import import_checkpoint
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from tests.model.formats.builders import (
    ENGLISH_FRENCH,
    Build,
    bart,
    m2m100,
    marian,
    mbart,
    mbart_cc25,
    nllb,
    refused,
    t5,
)
from tests.model.formats.conftest import write_json

transformers: Any = pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")

LENGTH = 14


FAMILIES = [
    (marian, {}),
    (marian, {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}),
    (marian, {"scale_embedding": False, "activation_function": "gelu"}),
    (m2m100, {}),
    (m2m100, {"activation_function": "gelu", "scale_embedding": False}),
    (nllb, {}),
    (mbart, {}),
    (mbart, {"scale_embedding": True, "activation_function": "relu"}),
    (mbart_cc25, {}),
    (bart, {}),
    (t5, {}),
    (t5, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
]


@pytest.mark.parametrize(("build", "changes"), FAMILIES, ids=lambda each: getattr(each, "__name__", None))
def test_logits_greedy_and_beams(build: Build, changes: dict[str, Any], tmp_path: Path, tokenizer: Tokenizer) -> None:
    theirs = build(tmp_path, tokenizer, **changes)
    config = import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    ours, read = load_model(tmp_path / "ours"), load_tokenizer(tmp_path / "ours")
    sources = read.encode_batch(["the cat sat", "la", "a big red house ran under the mat and ate"], "fr", "en")
    prompt = read.target_prefix("fr", "en")
    _assert_same_logits(ours, theirs, sources, [ours.config.bos_id, *prompt, 7, 9, 4])
    theirs.generation_config = transformers.GenerationConfig()  # without an end that is forced at the limit
    options = transformers.GenerationConfig(
        max_new_tokens=LENGTH + len(prompt),
        pad_token_id=ours.config.pad_id,
        eos_token_id=ours.config.eos_id,
        decoder_start_token_id=ours.config.bos_id,
        forced_bos_token_id=prompt[0] if prompt else None,
        use_cache=build is not t5,  # whose cache is as deep as the encoder
        suppress_tokens=[*range(len(read), ours.config.vocab_size)] or None,
    )
    if build is marian:
        # Its padding is what ours never writes.
        theirs.final_logits_bias[0, ours.config.pad_id] = -1e4
    for source in sources:
        ids = torch.tensor([source])
        [greedy] = greedy_decode(ours, [source], LENGTH, prompt)
        assert greedy == _generated(theirs, ids, options, len(prompt))
        options.update(num_beams=4, early_stopping=True)
        [[best]] = beam_decode(ours, [source], LENGTH, 4, prompt=prompt)
        assert best.ids == _generated(theirs, ids, options, len(prompt))
        options.update(num_beams=1, early_stopping=False)
    assert config == load_config(tmp_path / "ours")


def _assert_same_logits(ours: Transformer, theirs: Any, sources: Sequence[list[int]], target: list[int]) -> None:
    # In float32, the two round a T5's large sums differently.
    ours.double(), theirs.double()
    for source in sources:
        ids, written = torch.tensor([source]), torch.tensor([target])
        with torch.inference_mode():
            expected = theirs(input_ids=ids, decoder_input_ids=written).logits
            inputs = torch.tensor([[*target[1:], ours.config.eos_id]])
            assert ours.config.pad_id not in target[1:]
            computed = ours(ids, inputs)
            if ours.config.projection_bias:
                never = ours.projection.bias < -1e3
                computed[..., never] = expected[..., never]
        torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-4)
    ours.float(), theirs.float()


def _generated(theirs: Any, ids: torch.Tensor, options: Any, prompt: int) -> list[int]:
    with torch.inference_mode():
        [row] = theirs.generate(ids, generation_config=options).tolist()
    return [int(token) for token in row[1 + prompt :]]


def test_all_that_is_not_supported_is_named_at_once(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer, add_final_layer_norm=True, decoder_ffn_dim=41, activation_function="quick_gelu")
    message = (
        "not supported: activation_function is quick_gelu; add_final_layer_norm is True; "
        "encoder_ffn_dim is 40 but decoder_ffn_dim is 41"
    )
    refused(tmp_path, message)


def test_weights_that_are_left_over_or_missing_are_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    m2m100(tmp_path, tokenizer)
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.extra"] = weights.pop("model.decoder.layer_norm.bias")
    save_file(weights, tmp_path / "model.safetensors")
    refused(tmp_path, r"missing model\.decoder\.layer_norm\.bias; unexpected model\.extra", ANY)


@pytest.mark.parametrize("parts", [1, 2])
def test_weights_in_pytorch_files(parts: int, tmp_path: Path, tokenizer: Tokenizer) -> None:
    m2m100(tmp_path, tokenizer)
    import_checkpoint(tmp_path, tmp_path / "expected")
    weights = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    names = sorted(weights)
    files = ["pytorch_model.bin"] if parts == 1 else [f"pytorch_model-{i}.bin" for i in range(parts)]
    for i, file in enumerate(files):
        torch.save({name: weights[name] for name in names[i::parts]}, tmp_path / file)
    if parts > 1:
        index = {name: files[i % parts] for i, name in enumerate(names)}
        write_json(tmp_path / "pytorch_model.bin.index.json", {"weight_map": index})
    import_checkpoint(tmp_path, tmp_path / "ours")
    assert (tmp_path / "ours" / "model.safetensors").read_bytes() == (
        tmp_path / "expected" / "model.safetensors"
    ).read_bytes()


def test_weights_in_a_file_of_before_pytorch_1_6(tmp_path: Path, tokenizer: Tokenizer) -> None:
    m2m100(tmp_path, tokenizer)
    import_checkpoint(tmp_path, tmp_path / "expected")
    (tmp_path / "model.safetensors").rename(tmp_path / "weights")
    file = tmp_path / "pytorch_model.bin"
    torch.save(load_file(tmp_path / "weights"), file, _use_new_zipfile_serialization=False)
    import_checkpoint(tmp_path, tmp_path / "ours")
    written, expected = (load_file(tmp_path / each / "model.safetensors") for each in ("ours", "expected"))
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[name], expected[name]) for name in written)


@pytest.mark.parametrize(
    ("build", "extra", "missing"),
    [
        (t5, ["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"], []),
        (bart, ["model.encoder.version", "model.decoder.version"], []),
        (marian, [], ["final_logits_bias"]),
    ],
)
def test_weights_that_transformers_ignores_or_does_without(
    build: Build, extra: list[str], missing: list[str], tmp_path: Path, tokenizer: Tokenizer
) -> None:
    theirs = build(tmp_path, tokenizer)
    path = tmp_path / "model.safetensors"
    weights = load_file(path) | {name: torch.ones(8, 4) for name in extra}
    save_file({name: each for name, each in weights.items() if name not in missing}, path, {"format": "pt"})
    theirs = type(theirs).from_pretrained(tmp_path)
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    _assert_same_logits(load_model(tmp_path / "ours"), theirs, [[5, 9, 40]], [theirs.config.decoder_start_token_id, 7])
    weights["model.other.version"] = torch.ones(1)
    save_file(weights, path, {"format": "pt"})
    refused(tmp_path, r"unexpected model\.other\.version")
