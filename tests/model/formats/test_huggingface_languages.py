"""Languages of imported models of transformers, and how they are passed to the models."""

from pathlib import Path
from typing import Any

import pytest

from model.checkpoint_config import ANY, CheckpointError, LanguageHint, load_tokenizer
from model.formats import import_checkpoint
from model.formats.checked_source import read_json
from model.tokenizer import Tokenizer
from tests.model.formats.builders import (
    ENGLISH_FRENCH,
    Build,
    m2m100,
    marian,
    mbart,
    mbart_cc25,
    nllb,
    refused,
    saved,
    t5,
)
from tests.model.formats.conftest import SHAPE, write_json, write_tokenizer_json

transformers: Any = pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")


def test_languages_are_what_the_tokenizer_has(tmp_path: Path, tokenizer: Tokenizer) -> None:
    found = {}
    for build in (nllb, mbart, m2m100, t5):
        directory = tmp_path / build.__name__
        directory.mkdir()
        build(directory, tokenizer)
        found[build.__name__] = import_checkpoint(directory, directory / "ours").languages
    assert found == {
        "nllb": ("en", "fr", "zh-Hans", "zh-Hant"),
        "mbart": ("en", "fr", "pt"),
        "m2m100": ("de", "en", "fr"),
        "t5": ("en", "fr"),
    }


def test_the_first_mbart_reads_languages_after_the_text_and_in_the_place_of_a_start(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    mbart_cc25(tmp_path, tokenizer)
    config = import_checkpoint(tmp_path, tmp_path / "ours", LanguageHint("en", None))
    ours = load_tokenizer(tmp_path / "ours")
    assert [str(each) for each in config.directions] == ["en-fr"]
    theirs = transformers.MBartTokenizer.from_pretrained(tmp_path, src_lang="en_XX", tgt_lang="fr_XX")
    for text in ("the cat sat", "a red house"):
        assert ours.encode(text, "fr", "en") == theirs(text).input_ids
    assert ours.target_prefix("fr", "en") == []
    assert config.model.bos_id == theirs.convert_tokens_to_ids("fr_XX")


def test_the_first_mbart_starts_in_the_language_that_is_wanted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    mbart_cc25(tmp_path, tokenizer, decoder_start_token_id=None)
    config = import_checkpoint(tmp_path, tmp_path / "ours", LanguageHint("fr", "pt"))
    assert config.model.bos_id == load_tokenizer(tmp_path / "ours").piece_id("pt_BR")
    refused(tmp_path, "do not say its languages", LanguageHint("en", None))
    refused(tmp_path, "xx is none of its languages: en, fr, pt", LanguageHint("en", "xx"))


def test_marian_reads_text_as_it_does_there(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer)
    files = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
    theirs = transformers.MarianTokenizer(**{name: str(tmp_path / file) for name, file in files.items()})
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    ours = load_tokenizer(tmp_path / "ours")
    for text in ("the cat sat", "Le chat, \u65e5!", ""):
        assert ours.encode(text, "fr", "en") == theirs(text).input_ids
    assert ours.decode(ours.encode("the cat sat")) == "the cat sat"


@pytest.mark.parametrize("text", ["</s> the cat", "eng_Latn fra_Latn", "<pad>"])
def test_text_cannot_imitate_special_tokens(text: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    nllb(tmp_path, tokenizer)
    import_checkpoint(tmp_path, tmp_path / "ours")
    read = load_tokenizer(tmp_path / "ours")
    first, *middle, last = read.encode(text, "fr", "en")
    special = {first, last, *read.target_prefix("fr", "en"), read.pad_id, read.bos_id}
    assert not special & set(middle)


def test_the_languages_of_a_pair_have_to_be_known(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer)
    refused(tmp_path, "do not say its languages", ANY)
    write_json(tmp_path / "tokenizer_config.json", {"source_lang": "eng", "target_lang": "fra"})
    [direction] = import_checkpoint(tmp_path, tmp_path / "ours").directions
    assert str(direction) == "en-fr"


@pytest.mark.parametrize("name", ["opus-mt-ROMANCE-en", "opus-mt-en-CELTIC"])
def test_a_group_of_languages_is_no_direction(name: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    directory = tmp_path / name
    directory.mkdir()
    marian(directory, tokenizer)
    with pytest.raises(CheckpointError, match="do not say its languages"):
        import_checkpoint(directory, tmp_path / "ours")
    wanted = LanguageHint("es", None) if name.endswith("-en") else LanguageHint(None, "it")
    [direction] = import_checkpoint(directory, tmp_path / "ours", wanted).directions
    assert direction.codes() in (("es", "en"), ("en", "it"))


def test_what_is_wanted_has_to_be_a_language(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer)
    refused(tmp_path, "source: String should match pattern", LanguageHint("French", "en"))


@pytest.mark.parametrize(
    ("build", "wanted", "message"),
    [
        (m2m100, LanguageHint("ja", "en"), "ja is none of its source languages: de, en, fr$"),
        (nllb, LanguageHint("en", "ja"), "ja is none of its target languages: en, fr, zh-Hans, zh-Hant$"),
        (t5, LanguageHint(None, "ja"), "ja is none of its target languages: en, fr$"),
    ],
)
def test_what_is_wanted_has_to_be_among_the_languages(
    build: Build, wanted: LanguageHint, message: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    build(tmp_path, tokenizer)
    refused(tmp_path, message, wanted)


def test_what_is_wanted_of_a_group_has_to_be_one_of_it(tmp_path: Path, tokenizer: Tokenizer) -> None:
    marian(tmp_path, tokenizer)
    path = tmp_path / "vocab.json"
    vocabulary = read_json(path)
    names = {piece: piece for piece in vocabulary}
    names |= zip(list(vocabulary)[-3:-1], (">>fra<<", ">>deu<<"), strict=True)
    write_json(path, {names[piece]: token for piece, token in vocabulary.items()})
    config = import_checkpoint(tmp_path, tmp_path / "ours", LanguageHint("en", "fr"))
    assert [str(each) for each in config.directions] == ["en-fr", "en-de"]
    refused(tmp_path, r"ja is none of its target languages: de, fr$", LanguageHint("en", "ja"))


def test_of_many_languages_an_error_names_some(tmp_path: Path, tokenizer: Tokenizer) -> None:
    tags = [f"{first}{second}a_Latn" for first in "qxy" for second in "abcdefgh"]
    size = write_tokenizer_json(tmp_path / "tokenizer.json", tokenizer, tags)
    config = transformers.M2M100Config(**SHAPE, vocab_size=size, pad_token_id=0, bos_token_id=1)
    saved(tmp_path, "M2M100ForConditionalGeneration", config)
    refused(tmp_path, r"en is none of its source languages: (\w{2,3}, ){19}\w+ and 4 more$", LanguageHint("en", None))
