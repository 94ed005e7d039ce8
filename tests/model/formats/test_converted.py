"""Models of transformers that CTranslate2 has converted expect the tokens of their tokenizers, and get them here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from model.checkpoint import load_model
from model.checkpoint_config import ANY, load_tokenizer
from model.decoding import greedy_decode
from model.formats import import_checkpoint
from model.formats.checked_source import read_json
from model.tokenizer import Tokenizer
from tests.model.formats.builders import ENGLISH_FRENCH, bart, marian, mbart, mbart_cc25, refused, saved
from tests.model.formats.conftest import SHAPE, pieces_of, write_json, write_tokenizer_json

ctranslate2: Any = pytest.importorskip("ctranslate2", reason="pip install 'dragoman[load]'")
transformers: Any = pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")

TEXTS = ["the cat sat", "la", "a big red house ran under the mat and ate"]
LENGTH = 14

Tokens = Callable[[str], list[str]]
Build = Callable[[Path, Tokenizer], Tokens]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def _converted(directory: Path, *files: str) -> Path:
    """Convert a model as CTranslate2 does; these files are copied."""
    converted = directory / "converted"
    ctranslate2.converters.TransformersConverter(str(directory), copy_files=list(files)).convert(str(converted))
    return converted


def _tokens(theirs: Any) -> Tokens:
    return lambda text: theirs.convert_ids_to_tokens(theirs(text).input_ids)


def _marian(directory: Path, tokenizer: Tokenizer) -> Tokens:
    marian(directory, tokenizer)
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer"})
    return _tokens(transformers.MarianTokenizer.from_pretrained(directory))


def _m2m100(directory: Path, tokenizer: Tokenizer) -> Tokens:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(tokenizer)[4:]]
    files = {"vocab_file": directory / "vocab.json", "spm_file": directory / "sentencepiece.bpe.model"}
    write_json(files["vocab_file"], {piece: i for i, piece in enumerate(pieces)})
    files["spm_file"].write_bytes(tokenizer.files["tokenizer.model"])
    theirs = transformers.M2M100Tokenizer(**{name: str(file) for name, file in files.items()}, src_lang="en")
    theirs.add_tokens(list(theirs.lang_token_to_id), special_tokens=True)  # as they are in published ones
    theirs.save_pretrained(directory)
    config = transformers.M2M100Config(**SHAPE, vocab_size=len(pieces) + 108)
    saved(directory, "M2M100ForConditionalGeneration", config)
    return _tokens(theirs)


def _nllb(directory: Path, tokenizer: Tokenizer) -> Tokens:
    size = write_tokenizer_json(directory / "tokenizer.json", tokenizer, ["eng_Latn", "fra_Latn"])
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"} | SPECIAL)
    config = transformers.M2M100Config(**SHAPE, vocab_size=size + 2, pad_token_id=0, bos_token_id=1)
    saved(directory, "M2M100ForConditionalGeneration", config)
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    return lambda text: ["eng_Latn", *theirs.tokenize(text), "</s>"]


def _bart(directory: Path, tokenizer: Tokenizer) -> Tokens:
    bart(directory, tokenizer, normalize_before=False)  # published ones say so
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"} | SPECIAL)
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    return lambda text: ["<s>", *theirs.tokenize(text), "</s>"]


def _mbart_50(directory: Path, tokenizer: Tokenizer) -> Tokens:
    mbart(directory, tokenizer, normalize_before=True)
    write_json(
        directory / "config.json", read_json(directory / "config.json") | {"tokenizer_class": "MBart50Tokenizer"}
    )
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"} | SPECIAL)
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    return lambda text: ["en_XX", *theirs.tokenize(text), "</s>"]


def _mbart_cc25(directory: Path, tokenizer: Tokenizer) -> Tokens:
    mbart_cc25(directory, tokenizer, normalize_before=True)
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"} | SPECIAL)
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    return lambda text: [*theirs.tokenize(text), "</s>", "en_XX"]


FAMILIES: list[tuple[Build, list[str], list[str]]] = [
    (_marian, ["source.spm", "target.spm"], []),
    (_m2m100, ["sentencepiece.bpe.model"], ["__fr__"]),
    (_nllb, ["tokenizer.json"], ["fra_Latn"]),
    (_mbart_50, ["tokenizer.json"], ["fr_XX"]),
    (_mbart_cc25, ["tokenizer.json"], ["fr_XX"]),
    (_bart, ["tokenizer.json"], []),
]


@pytest.mark.parametrize(("build", "files", "prefix"), FAMILIES)
def test_it_writes_what_ctranslate2_writes(
    build: Build, files: Sequence[str], prefix: list[str], tmp_path: Path, tokenizer: Tokenizer
) -> None:
    tokens = build(tmp_path, tokenizer)
    converted = _converted(tmp_path, *files)
    translator = ctranslate2.Translator(str(converted), compute_type="float32", intra_threads=1)
    found = translator.translate_batch(
        [tokens(text) for text in TEXTS],
        target_prefix=[prefix] * len(TEXTS) if prefix else None,
        beam_size=1,
        max_decoding_length=LENGTH + len(prefix),
    )
    pieces = [each.hypotheses[0] for each in found]
    # The id that starts a decoder is no part of its output, but the ids that it is given after that are.
    expected = [each[len(prefix) if each[: len(prefix)] == prefix else 0 :][:LENGTH] for each in pieces]
    import_checkpoint(converted, tmp_path / "ours", ENGLISH_FRENCH)
    model, read = load_model(tmp_path / "ours"), load_tokenizer(tmp_path / "ours")
    sources = read.encode_batch(TEXTS, "fr", "en")
    written = greedy_decode(model, sources, LENGTH, read.target_prefix("fr", "en"))
    ids = [[i for i in each if i != model.config.eos_id] for each in written]
    assert ids == [[read.piece_id(piece) for piece in each] for each in expected]


def test_tokens_that_are_not_known_are_not_guessed(tmp_path: Path, tokenizer: Tokenizer) -> None:
    _nllb(tmp_path, tokenizer)
    converted = _converted(tmp_path, "tokenizer.json")
    described = read_json(converted / "config.json")
    write_json(converted / "config.json", described | {"decoder_start_token": None})
    refused(converted, "which tokens it expects around a text is not known")
    (converted / "tokenizer.json").unlink()
    refused(converted, r"neither sentencepiece\.model nor")
    write_tokenizer_json(converted / "tokenizer.json", tokenizer, ["fra_Latn", "eng_Latn"])
    refused(converted, r"tokenizer\.json numbers its pieces otherwise")


def test_a_model_of_a_pair_names_its_languages_or_is_given_them(tmp_path: Path, tokenizer: Tokenizer) -> None:
    _marian(tmp_path, tokenizer)
    refused(_converted(tmp_path, "source.spm", "target.spm"), "do not say its languages", ANY)


def test_a_text_cannot_have_a_piece_without_a_row(tmp_path: Path, tokenizer: Tokenizer) -> None:
    size = write_tokenizer_json(tmp_path / "tokenizer.json", tokenizer, ["eng_Latn", "fra_Latn"])
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"} | SPECIAL)
    config = transformers.M2M100Config(**SHAPE, vocab_size=size, pad_token_id=0, bos_token_id=1)
    saved(tmp_path, "M2M100ForConditionalGeneration", config)
    converted = _converted(tmp_path, "tokenizer.json")
    import_checkpoint(converted, tmp_path / "ours")
    path = converted / "tokenizer.json"
    read = tokenizers.Tokenizer.from_file(str(path))
    read.add_tokens(["zebra"])
    read.save(str(path))
    refused(converted, f"the tokenizer has the source piece {size}, the model {size} of them", ANY)
