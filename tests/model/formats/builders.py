"""Small random models of each family, as transformers saves them, with a tokenizer of tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint_config import CheckpointError, LanguageHint
from model.formats import import_checkpoint
from model.tokenizer import Tokenizer
from tests.model.formats.conftest import SHAPE, pieces_of, randomised, write_json, write_tokenizer_json

transformers: Any = pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")

ENGLISH_FRENCH = LanguageHint("en", "fr")

Build = Callable[..., Any]


def saved(directory: Path, kind: str, config: Any) -> Any:
    """Save a random model of one of transformers' classes; return it."""
    model = randomised(getattr(transformers, kind)(config))
    model.save_pretrained(directory)
    return model


def refused(path: Path, message: str, hint: LanguageHint = ENGLISH_FRENCH) -> None:
    """Import what must be refused with a message, which is a pattern, and leave nothing."""
    with pytest.raises(CheckpointError, match=message):
        import_checkpoint(path, path / "refused", hint)
    assert not (path / "refused").exists()


def marian(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    pieces = ["</s>", "<unk>", *pieces_of(tokenizer)[4:], "<pad>"]
    common = {"activation_function": "swish", "scale_embedding": True, "eos_token_id": 0}
    last = len(pieces) - 1
    config = transformers.MarianConfig(
        **(SHAPE | common | changes), vocab_size=len(pieces), pad_token_id=last, decoder_start_token_id=last
    )
    model = saved(directory, "MarianMTModel", config)
    for name in ("source.spm", "target.spm"):
        (directory / name).write_bytes(tokenizer.files["tokenizer.model"])
    write_json(directory / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    if not changes.get("share_encoder_decoder_embeddings", True):
        write_json(directory / "target_vocab.json", {piece: i for i, piece in enumerate(pieces)})
    return model


def m2m100(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(tokenizer)[4:]]
    languages = ["__de__", "__en__", "__fr__"]
    config = transformers.M2M100Config(**SHAPE, vocab_size=len(pieces) + len(languages) + 2, **changes)
    model = saved(directory, "M2M100ForConditionalGeneration", config)
    (directory / "sentencepiece.bpe.model").write_bytes(tokenizer.files["tokenizer.model"])
    write_json(directory / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    write_json(directory / "special_tokens_map.json", {"additional_special_tokens": languages})
    return model


def nllb(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(
        directory / "tokenizer.json", tokenizer, ["eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant"]
    )
    config = transformers.M2M100Config(**SHAPE, vocab_size=size, pad_token_id=0, bos_token_id=1, **changes)
    return saved(directory, "M2M100ForConditionalGeneration", config)


def mbart(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(directory / "tokenizer.json", tokenizer, ["en_XX", "fr_XX", "pt_BR"])
    config = transformers.MBartConfig(
        **SHAPE, vocab_size=size, pad_token_id=0, bos_token_id=1, decoder_start_token_id=2, **changes
    )
    model = saved(directory, "MBartForConditionalGeneration", config)
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "MBart50Tokenizer"})
    return model


def mbart_cc25(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(directory / "tokenizer.json", tokenizer, ["en_XX", "fr_XX", "pt_BR"])
    options = {"pad_token_id": 0, "bos_token_id": 1, "decoder_start_token_id": size - 2} | changes
    config = transformers.MBartConfig(**SHAPE, vocab_size=size, **options)
    model = saved(directory, "MBartForConditionalGeneration", config)
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "MBartTokenizer"})
    return model


def bart(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(directory / "tokenizer.json", tokenizer)
    config = transformers.BartConfig(
        **SHAPE, vocab_size=size, pad_token_id=0, bos_token_id=1, decoder_start_token_id=2, **changes
    )
    return saved(directory, "BartForConditionalGeneration", config)


def t5(directory: Path, tokenizer: Tokenizer, **changes: Any) -> Any:
    size = write_tokenizer_json(directory / "tokenizer.json", tokenizer, ["<2en>", "<2fr>", "<2translate>"])
    config = transformers.T5Config(
        d_model=24,
        d_kv=7,
        d_ff=40,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        vocab_size=size,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
        **changes,
    )
    return saved(directory, "T5ForConditionalGeneration", config)
