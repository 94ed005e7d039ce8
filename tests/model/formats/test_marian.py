"""Marian's own files give what Marian computes (tests/model/formats/marian_models.py), and nothing else is read."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import sentencepiece
import torch
from safetensors.torch import load_file

from model.checkpoint import load_model
from model.checkpoint_config import CheckpointError, LanguageHint, load_tokenizer
from model.decoding import greedy_decode
from model.formats import import_checkpoint
from tests.model.formats.marian_models import (
    EOS,
    MODEL,
    STUDENTS,
    UNKNOWN,
    Item,
    MarianModel,
    size_of,
    write_tiny,
)

HINT = LanguageHint("en", "pt")
TEXTS = ["the cat sees the house", "a dog", "the house"]


def _assert_computes(made: Path, model: MarianModel) -> None:
    """Logits of every place, and greedy translations."""
    ours, tokenizer = load_model(made), load_tokenizer(made)
    sources = [tokenizer.encode(text, "pt", "en") for text in TEXTS]
    assert all(source[-1] == EOS and len(source) > 1 for source in sources)
    for source in sources:
        target = model.greedy(source, 12)
        inputs = torch.tensor([[ours.config.bos_id, *target]])
        with torch.inference_mode():
            logits = ours(torch.tensor([source]), torch.tensor([[*target, EOS]]))[0]
        assert inputs.shape[1] == len(logits)
        expected = model.logits(source, target).float()
        usable = [token for token in range(expected.shape[1]) if token != UNKNOWN]
        torch.testing.assert_close(logits[:, usable], expected[:, usable], rtol=1e-4, atol=1e-4)
        assert logits[:, [UNKNOWN, ours.config.bos_id]].max() < -1000
    assert greedy_decode(ours, sources, 12) == [model.greedy(source, 12) for source in sources]


def test_a_model_of_firefox(tmp_path: Path, vocabulary: bytes) -> None:
    """8-bit weights with their scales, SSRU, one vocabulary, languages in the files' names."""
    model = write_tiny(tmp_path / "tiny", vocabulary)
    config = import_checkpoint(tmp_path / "tiny", tmp_path / "made")
    assert [direction.codes() for direction in config.directions] == [("en", "pt")]
    assert config.model.decoder_memory == "ssru"
    stored = load_file(tmp_path / "made" / "model.safetensors")
    assert stored["embedding.weight"].dtype == torch.int8
    assert {each.dtype for name, each in stored.items() if name.endswith("_attention.query.weight")} == {torch.int8}
    _assert_computes(tmp_path / "made", model)
    text = "the cat sees a dog"
    tokenizer = load_tokenizer(tmp_path / "made")
    assert tokenizer.decode(tokenizer.encode(text)) == text
    own = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    assert tokenizer.encode(text) == [*own.encode(text), EOS]


@pytest.mark.parametrize(
    "shape", [each if each == "base-memory" else pytest.param(each, marks=pytest.mark.slow) for each in STUDENTS]
)
def test_each_size_of_firefox(tmp_path: Path, vocabulary: bytes, shape: str) -> None:
    model = write_tiny(tmp_path / shape, vocabulary, **STUDENTS[shape])
    config = import_checkpoint(tmp_path / shape, tmp_path / "made").model
    _assert_computes(tmp_path / "made", model)
    assert (config.d_model, config.decoder_layers) == (model.options["dim-emb"], model.options["dec-depth"])


_BASE: dict[str, Any] = {
    "transformer-decoder-autoreg": "self-attention",
    "dec-cell": "gru",
    "transformer-ffn-activation": "swish",
}
_PRE: dict[str, Any] = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        _BASE,
        _PRE,
        {**_BASE, **_PRE},
        {"transformer-postprocess-emb": "nd", "output-omit-bias": True},
        {"tied-embeddings-all": False, "tied-embeddings-src": True},
    ],
)
def test_archives_of_every_kind(tmp_path: Path, vocabulary: bytes, options: dict[str, Any]) -> None:
    size = size_of(vocabulary)
    model = MarianModel(size, size, **options)
    model.write_archive(tmp_path / "model.npz")
    (tmp_path / "vocab.spm").write_bytes(vocabulary)
    import_checkpoint(tmp_path, tmp_path / "made", HINT)
    _assert_computes(tmp_path / "made", model)


@pytest.mark.parametrize("quantised", [True, False])
def test_vocabularies_of_their_own(tmp_path: Path, vocabulary: bytes, other_vocabulary: bytes, quantised: bool) -> None:
    model = MarianModel(
        size_of(vocabulary), size_of(other_vocabulary), **{"tied-embeddings-all": False, "tied-embeddings": True}
    )
    model.write_binary(tmp_path / "model.enja.intgemm8.bin", quantised=quantised)
    (tmp_path / "srcvocab.enja.spm").write_bytes(vocabulary)
    (tmp_path / "trgvocab.enja.spm").write_bytes(other_vocabulary)
    config = import_checkpoint(tmp_path, tmp_path / "made", HINT)
    assert config.model.source_vocab_size == size_of(vocabulary)
    _assert_computes(tmp_path / "made", model)


def _write_release(directory: Path, vocabulary: bytes, pieces: list[str]) -> MarianModel:
    """A model as OPUS-MT's releases have it: another checkpoint beside it, and ids in a YAML file."""
    model = MarianModel(len(pieces), len(pieces), **_BASE)
    model.write_archive(directory / "opus.model1.npz.best-perplexity.npz")
    MarianModel(len(pieces), len(pieces)).write_archive(directory / "opus.model1.npz")
    (directory / "opus.vocab.yml").write_text("".join(f"{json.dumps(each)}: {i}\n" for i, each in enumerate(pieces)))
    for side in ("source", "target"):
        (directory / f"{side}.spm").write_bytes(vocabulary)
    (directory / "decoder.yml").write_text(
        "models:\n  - opus.model1.npz.best-perplexity.npz\nvocabs:\n  - opus.vocab.yml\n  - opus.vocab.yml\n"
        "beam-size: 6\nnormalize: 1\nrelative-paths: true\n"
    )
    return model


def _numbered_anew(vocabulary: bytes) -> list[str]:
    """Pieces of which some look like other values of YAML, and one stands for nothing in the text."""
    own = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    known = [own.id_to_piece(i) for i in range(2, own.get_piece_size())]
    return ["</s>", "<unk>", *reversed(known), "null", "1.5", "yes", "- a", "<pad>"]


def test_a_release_of_opus_mt(tmp_path: Path, vocabulary: bytes) -> None:
    pieces = _numbered_anew(vocabulary)
    model = _write_release(tmp_path, vocabulary, pieces)
    import_checkpoint(tmp_path, tmp_path / "made", HINT)
    assert json.loads((tmp_path / "made" / "vocabulary.json").read_bytes()) == pieces
    _assert_computes(tmp_path / "made", model)


def test_a_release_of_many_languages(tmp_path: Path, vocabulary: bytes) -> None:
    pieces = [*_numbered_anew(vocabulary), ">>por<<", ">>fra<<"]
    _write_release(tmp_path, vocabulary, pieces)
    config = import_checkpoint(tmp_path, tmp_path / "made", LanguageHint("en", "pt"))
    assert [direction.codes() for direction in config.directions] == [("en", "pt"), ("en", "fr")]
    tokenizer = load_tokenizer(tmp_path / "made")
    assert tokenizer.encode("a dog", "pt", "en")[0] == pieces.index(">>por<<")


def test_without_languages_it_says_what_to_do(tmp_path: Path, vocabulary: bytes) -> None:
    size = size_of(vocabulary)
    MarianModel(size, size).write_archive(tmp_path / "model.npz")
    (tmp_path / "vocab.spm").write_bytes(vocabulary)
    assert "dragoman import --source" in _refused(tmp_path, LanguageHint())


def _refused(directory: Path, hint: LanguageHint = HINT) -> str:
    """Import what must be refused in one line, and leave nothing."""
    made = directory.parent / f"{directory.name}-made"
    with pytest.raises(CheckpointError) as refused:
        import_checkpoint(directory, made, hint)
    reason = str(refused.value)
    assert len(reason.splitlines()) == 1
    assert reason.startswith((str(directory), "the vocabulary has the id"))
    assert not made.exists()
    return reason


def test_all_unsupported_options_are_named_at_once(tmp_path: Path, vocabulary: bytes) -> None:
    options: dict[str, Any] = {
        "type": "s2s",
        "transformer-decoder-autoreg": "average-attention",
        "transformer-ffn-activation": "gelu",
        "transformer-postprocess": "hn",
        "transformer-tied-layers": [1, 1],
        "transformer-train-positions": True,
        "right-left": True,
        "dim-vocabs": [3],
    }
    model = MarianModel(9, 9)
    model.options.update(options)
    model.write_binary(tmp_path / MODEL, quantised=True)
    reason = _refused(tmp_path)
    assert all(name in reason for name in options)
    model.options.update(MarianModel(9, 9).options | {"dec-cell": "lstm"})
    model.write_binary(tmp_path / MODEL, quantised=True)
    assert reason != _refused(tmp_path)
    assert "dec-cell is lstm" in _refused(tmp_path)


def test_all_wrong_parameters_are_named_at_once(tmp_path: Path, vocabulary: bytes) -> None:
    write_tiny(tmp_path, vocabulary)
    model = MarianModel(size_of(vocabulary), size_of(vocabulary))
    model.parameters["decoder_l3_rnn_W"] = model.parameters.pop("decoder_l1_rnn_W")
    del model.parameters["encoder_l2_ffn_b1"]
    model.parameters["encoder_l1_self_bq"] = torch.zeros(1, 1, 16)
    model.write_binary(tmp_path / MODEL, quantised=True)
    reason = _refused(tmp_path)
    for problem in (
        "missing decoder_l1_rnn_W",
        "unexpected decoder_l3_rnn_W",
        "missing encoder_l2_ffn_b1",
        "encoder_l1_self_bq has the shape [1, 1, 16]",
    ):
        assert problem in reason


Change = Callable[[list[Item]], object]


def _first(**values: Any) -> Change:
    """Change fields of the first matrix."""

    def change(items: list[Item]) -> None:
        for name, value in values.items():
            setattr(items[0], name, value)

    return change


def _multiplier(value: float) -> Change:
    def change(items: list[Item]) -> None:
        items[0].data = items[0].data[:-4] + struct.pack("<f", value)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_first(kind=0x4102), "Wemb is of the type 0x4102"),
        (_first(kind=0x2801), "Wemb is of the type 0x2801"),
        (_first(shape=[-1, 16]), "Wemb has the shape"),
        (_first(shape=[1 << 30, 1 << 30]), "Wemb has the shape"),
        (_first(shape=[4, 4]), "Wemb has the shape"),
        (_first(shape=[]), "Wemb has the shape"),
        (_first(data=b""), "Wemb has the shape"),
        (_first(name="b\xe9"), "unexpected b"),
        (_multiplier(0.0), "Wemb has the multiplier 0.0"),
        (_multiplier(float("nan")), "Wemb has the multiplier nan"),
        (lambda items: items.append(items[0]), "Wemb is there twice"),
        (lambda items: items.pop(), "has no special:model.yml"),
        (lambda items: items[-1].__setattr__("data", b"- a\n"), "not a list of names and values"),
        (lambda items: items[-1].__setattr__("data", b"a: &x [b]\nc: *x\n"), "an alias"),
        (lambda items: items[-1].__setattr__("data", b"[" * 100_000), "special:model.yml|alphas.bin"),
        (lambda items: items[-1].__setattr__("data", b"\xff\xfe\xff"), "decode"),
    ],
)
def test_a_broken_binary_file_is_refused(tmp_path: Path, vocabulary: bytes, change: Change, message: str) -> None:
    model = write_tiny(tmp_path / "broken", vocabulary)
    model.write_binary(tmp_path / "broken" / MODEL, quantised=True, change=change)
    assert any(part in _refused(tmp_path / "broken") for part in message.split("|"))


def test_two_problems_of_a_binary_file_are_named_at_once(tmp_path: Path, vocabulary: bytes) -> None:
    def change(items: list[Item]) -> None:
        items[0].kind, items[2].kind = 0x4102, 0x402

    model = write_tiny(tmp_path / "broken", vocabulary)
    model.write_binary(tmp_path / "broken" / MODEL, quantised=True, change=change)
    reason = _refused(tmp_path / "broken")
    assert "0x4102" in reason
    assert "0x402," in reason


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path, vocabulary: bytes) -> None:
    directory = tmp_path / "cut"
    write_tiny(directory, vocabulary)
    whole = (directory / MODEL).read_bytes()
    for length in [*range(0, 4000, 331), *range(4000, len(whole), 7919), len(whole) - 1]:
        (directory / MODEL).write_bytes(whole[:length])
        _refused(directory)
    (directory / MODEL).write_bytes(whole + b"\0")
    assert "1 bytes are left over" in _refused(directory)


@pytest.mark.parametrize("place", range(0, 80, 8))
def test_a_number_of_the_header_that_is_far_too_large_is_refused(tmp_path: Path, vocabulary: bytes, place: int) -> None:
    directory = tmp_path / "large"
    write_tiny(directory, vocabulary)
    content = bytearray((directory / MODEL).read_bytes())
    for number in (1 << 63, (1 << 64) - 1, 1 << 40):
        struct.pack_into("<Q", content, place, number)
        (directory / MODEL).write_bytes(content)
        _refused(directory)


def test_hostile_archives_are_refused(tmp_path: Path, vocabulary: bytes) -> None:
    size = size_of(vocabulary)
    directory = tmp_path / "hostile"
    directory.mkdir()
    (directory / "vocab.spm").write_bytes(vocabulary)
    path = directory / "model.npz"
    model = MarianModel(size, size)
    model.write_archive(path, Wemb=numpy.array([{}], dtype=object), encoder_l1_self_Wq=numpy.zeros((2, 2), "int32"))
    reason = _refused(directory)
    assert "Wemb: Object arrays cannot be loaded" in reason
    assert "encoder_l1_self_Wq is int32" in reason
    model.write_archive(path)
    whole = path.read_bytes()
    for length in (0, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        _refused(directory)
    huge = bytearray(whole)
    at = huge.index(b"'shape': (")
    huge[at + 10 : at + 13] = b"9e9"
    path.write_bytes(huge)
    _refused(directory)


def test_vocabularies_that_do_not_fit(tmp_path: Path, vocabulary: bytes) -> None:
    directory = tmp_path / "words"
    write_tiny(directory, vocabulary)
    spm = directory / "vocab.enpt.spm"
    spm.write_bytes(b"no model")
    assert "vocab.enpt.spm" in _refused(directory)
    spm.unlink()
    assert "has no vocabulary" in _refused(directory)
    (directory / "vocab.yml").write_text("</s>: 0\na: 1\n")
    assert "source.spm and target.spm are missing" in _refused(directory)
    for side in ("source", "target"):
        (directory / f"{side}.spm").write_bytes(vocabulary)
    assert "has no <unk>" in _refused(directory)
    for content, message in (
        ("</s>: 0\n<unk>: -1\n", "the id of '<unk>' is -1"),
        ("</s>: 0\n<unk>: [1]\n", "the id of '<unk>'"),
        ("a: 0\na: 1\n", "the id of 'a'"),
        ("</s>: 0\n<unk>: 99999999\n", "has the id 99999999"),
        ("a: !!python/object/apply:os.system [true]\n", "the id of 'a'"),
        ("a: *b\n", "alias"),
        ("{", "vocab.yml"),
    ):
        (directory / "vocab.yml").write_text(content)
        assert message in _refused(directory)


def test_several_models_need_one_that_is_named(tmp_path: Path, vocabulary: bytes) -> None:
    directory = tmp_path / "several"
    write_tiny(directory, vocabulary)
    (directory / "model.npz").write_bytes(b"")
    assert "several Marian models" in _refused(directory)
    (directory / "config.yml").write_text(f"models: [/elsewhere/{MODEL}]\nvocabs: [vocab.enpt.spm, vocab.enpt.spm]\n")
    import_checkpoint(directory, tmp_path / "made")
