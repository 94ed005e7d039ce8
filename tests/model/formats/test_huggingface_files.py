"""Files of transformers' models that are broken, or something else: each is named, and no traceback."""

import re
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint_config import ANY, CheckpointError, load_tokenizer
from model.formats import import_checkpoint
from model.formats.checked_source import read_json
from model.tokenizer import Tokenizer
from service.settings import EMBEDDED_MODEL
from tests.model.formats.builders import ENGLISH_FRENCH, Build, bart, m2m100, marian, nllb, refused
from tests.model.formats.conftest import write_json

transformers: Any = pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")


@pytest.mark.parametrize(
    ("build", "name", "content", "message"),
    [
        (m2m100, "vocab.json", None, r"vocab\.json: is not of its format: NoneType, not an object"),
        (m2m100, "vocab.json", {"a": "b"}, "is not of its format: TypeError: "),
        (m2m100, "special_tokens_map.json", [], r"special_tokens_map\.json: is not of its format: list, not an object"),
        (
            m2m100,
            "special_tokens_map.json",
            {"additional_special_tokens": [{}]},
            "not of its format: KeyError: 'content'",
        ),
        (m2m100, "special_tokens_map.json", {"additional_special_tokens": [[]]}, "is not of its format: TypeError: "),
        (m2m100, "model.safetensors.index.json", {}, "is not of its format: KeyError: 'weight_map'"),
        (marian, "tokenizer_config.json", [], r"tokenizer_config\.json: is not of its format: list, not an object"),
        (marian, "config.json", [], r"config\.json: is not of its format: list, not an object"),
        (marian, "config.json", {"model_type": []}, "is not of its format: TypeError: "),
    ],
)
def test_files_that_are_something_else(
    build: Build, name: str, content: Any, message: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    build(tmp_path, tokenizer)
    write_json(tmp_path / name, content)
    refused(tmp_path, f"{re.escape(str(tmp_path))}.*{message}", ANY)


@pytest.mark.parametrize(
    ("missing", "message"),
    [("added_tokens", "no language tokens are found"), ("decoder", "no rule is known for the decoder null")],
)
def test_a_tokenizer_with_something_missing(missing: str, message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    nllb(tmp_path, tokenizer)
    path = tmp_path / "tokenizer.json"
    write_json(path, {key: each for key, each in read_json(path).items() if key != missing})
    refused(tmp_path, message, ANY)


def test_a_tokenizer_without_tokens_of_its_own(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bart(tmp_path, tokenizer)
    path = tmp_path / "tokenizer.json"
    write_json(path, {key: each for key, each in read_json(path).items() if key != "added_tokens"})
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    read = load_tokenizer(tmp_path / "ours")
    assert read.decode(read.encode_target("the cat")) == "the cat"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder_layers": -1}, "decoder_layers: Input should be greater than"),
        ({"encoder_attention_heads": 5, "decoder_attention_heads": 5}, "Value error, "),
    ],
)
def test_numbers_that_no_model_has(change: dict[str, int], message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    m2m100(tmp_path, tokenizer)
    path = tmp_path / "config.json"
    write_json(path, read_json(path) | change)
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(tmp_path))}: {message}") as caught:
        import_checkpoint(tmp_path, tmp_path / "ours")
    assert "input_value" not in str(caught.value)


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    refused(tmp_path, "neither an Argos package, nor", ANY)
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    refused(tmp_path, "model_type is llama, known are bart, m2m_100, marian", ANY)
    with pytest.raises(CheckpointError, match=r"en-fr: a checkpoint of Dragoman's own already"):
        import_checkpoint(EMBEDDED_MODEL, tmp_path / "ours")
    (tmp_path / "notes.txt").write_text("no package")
    with pytest.raises(
        CheckpointError, match=r"notes\.txt: a file must be an Argos package \(\.argosmodel\); this is none"
    ):
        import_checkpoint(tmp_path / "notes.txt", tmp_path / "ours")
