"""Small checkpoints of other formats: transformers' own classes with random weights, saved as it saves them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import sentencepiece
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers

from model.tokenizer import Tokenizer
from tests.model.formats.marian_models import sentencepiece_model

pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")

SHAPE: Final = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 64,
}


def randomised(model: Any) -> Any:
    """Return weights that are loud enough for every one of them to matter."""
    torch.manual_seed(0)
    computed = "embed_positions" if model.config.model_type in ("marian", "m2m_100") else "nothing"
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if computed not in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model.eval()


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    [model] = tokenizer.files.values()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(len(tokenizer))]


def write_tokenizer_json(path: Path, tokenizer: Tokenizer, special: Sequence[str] = ()) -> int:
    """A `tokenizer.json` with `special` after the pieces of `tokenizer`; returns the size of its vocabulary."""
    words = [(piece, -float(i)) for i, piece in enumerate(pieces_of(tokenizer))]
    made = tokenizers.Tokenizer(models.Unigram(words, unk_id=3, byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(["<pad>", "<s>", "</s>", *special])
    made.save(str(path))
    return int(made.get_vocab_size())


@pytest.fixture(scope="session")
def vocabulary() -> bytes:
    """A SentencePiece model with Marian's special pieces."""
    return sentencepiece_model(120)


@pytest.fixture(scope="session")
def other_vocabulary() -> bytes:
    """A smaller one: that of the other side."""
    return sentencepiece_model(90)
