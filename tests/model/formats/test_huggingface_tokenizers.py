"""Tokenizers of transformers' models: pieces without rows, rows without pieces, and SentencePiece models alone."""

from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tokenizers
import torch

from model.checkpoint import load_model
from model.checkpoint_config import ANY, LanguageHint, load_tokenizer
from model.formats import import_checkpoint
from model.tokenizer import Tokenizer
from model.training.config import TokenizerConfig
from model.training.data import train_tokenizer
from tests.conftest import WORDS
from tests.model.formats.builders import ENGLISH_FRENCH, Build, bart, m2m100, nllb, refused, saved, t5
from tests.model.formats.conftest import SHAPE, randomised, write_json

transformers: Any = pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")


@pytest.mark.parametrize(("build", "rows"), [(nllb, 2), (m2m100, 0), (t5, 9)])
def test_rows_without_a_piece_are_never_written(build: Build, rows: int, tmp_path: Path, tokenizer: Tokenizer) -> None:
    theirs = build(tmp_path, tokenizer)
    size = theirs.config.vocab_size + rows
    theirs.resize_token_embeddings(size, mean_resizing=False)
    with torch.no_grad():
        theirs.get_output_embeddings().weight[-2:] = 9.0
    theirs.save_pretrained(tmp_path)
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    model, read = load_model(tmp_path / "ours"), load_tokenizer(tmp_path / "ours")
    nameless = range(len(read), model.config.vocab_size)
    assert len(nameless) >= 2
    assert read.decode([7, *nameless, 9]) == read.decode([7, 9])
    with torch.inference_mode():
        logits = model(torch.tensor([read.encode("the cat", "fr", "en")]), torch.tensor([[7, 9, 4, 5]]))
    assert (logits.softmax(-1)[..., len(read) :] == 0).all()


@pytest.mark.parametrize("build", [nllb, t5, bart])
def test_a_text_cannot_have_a_piece_without_a_row(build: Build, tmp_path: Path, tokenizer: Tokenizer) -> None:
    build(tmp_path, tokenizer)
    path = tmp_path / "tokenizer.json"
    read = tokenizers.Tokenizer.from_file(str(path))
    size = read.get_vocab_size()
    read.add_special_tokens(["<mask>"])
    read.save(str(path))
    import_checkpoint(tmp_path, tmp_path / "ours", ENGLISH_FRENCH)
    read.add_tokens(["zebra"])
    read.save(str(path))
    refused(tmp_path, f"the tokenizer has the source piece {size + 1}, the model {size} of")


def test_a_language_cannot_be_without_a_row(tmp_path: Path, tokenizer: Tokenizer) -> None:
    nllb(tmp_path, tokenizer)
    path = tmp_path / "tokenizer.json"
    read = tokenizers.Tokenizer.from_file(str(path))
    size = read.get_vocab_size()
    read.add_special_tokens(["deu_Latn"])
    read.save(str(path))
    refused(tmp_path, f"the tokenizer has the source piece {size}, the model {size} of", ANY)


def _fairseq_model(path: Path) -> list[str]:
    """A SentencePiece model of the kind that fairseq's are; returns its pieces."""
    sentences = [f"{first} {second} {third}" for first in WORDS for second in WORDS for third in WORDS[::3]]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_prefix=str(path.with_suffix("")), vocab_size=40, minloglevel=1
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(i) for i in range(40)]


@pytest.mark.parametrize(
    ("name", "languages", "wanted"), [("MBart50Tokenizer", 52, ANY), ("MBartTokenizer", 25, ENGLISH_FRENCH)]
)
def test_an_mbart_with_nothing_but_its_sentencepiece_model(
    name: str, languages: int, wanted: LanguageHint, tmp_path: Path
) -> None:
    pieces = _fairseq_model(tmp_path / "sentencepiece.bpe.model")
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": name})
    size = len(pieces) + 1 + languages + 1
    model = randomised(transformers.MBartForConditionalGeneration(transformers.MBartConfig(**SHAPE, vocab_size=size)))
    model.save_pretrained(tmp_path)
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]]
    codes = transformers.models.mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES[:languages]
    theirs = getattr(transformers, name).from_pretrained(tmp_path, src_lang="en_XX")
    import_checkpoint(tmp_path, tmp_path / "ours", wanted)
    read = load_tokenizer(tmp_path / "ours")
    for piece in (*vocabulary, *codes, "<mask>"):
        assert read.piece_id(piece) == theirs.convert_tokens_to_ids(piece)
    assert len(read) == size
    ids = read.encode("the cat sat", "fr", "en")
    assert ids[-2:] + ids[:1] == theirs("the cat sat").input_ids[-2:] + theirs("the cat sat").input_ids[:1]
    assert read.decode(ids) == "the cat sat"


def test_an_nllb_with_nothing_but_its_sentencepiece_model_and_its_languages(tmp_path: Path) -> None:
    pieces = _fairseq_model(tmp_path / "sentencepiece.bpe.model")
    config = transformers.M2M100Config(**SHAPE, vocab_size=len(pieces) + 6)
    saved(tmp_path, "M2M100ForConditionalGeneration", config)
    refused(tmp_path, "no language tokens are found", ANY)
    tags = ["eng_Latn", "fra_Latn"]
    write_json(tmp_path / "special_tokens_map.json", {"additional_special_tokens": tags})
    import_checkpoint(tmp_path, tmp_path / "ours")
    read = load_tokenizer(tmp_path / "ours")
    expected = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], *tags, "<mask>"]
    assert [read.piece_id(piece) for piece in expected] == list(range(len(expected)))
    write_json(tmp_path / "special_tokens_map.json", {"additional_special_tokens": ["__en__", "__fr__"]})
    refused(tmp_path, r"vocab\.json: .*No such file", ANY)


def test_a_t5_with_nothing_but_its_sentencepiece_model(tmp_path: Path, tokenizer: Tokenizer) -> None:
    t5(tmp_path, tokenizer)
    import_checkpoint(tmp_path, tmp_path / "expected")
    (tmp_path / "tokenizer.json").unlink()
    tags = {"fr": "<2fr>", "en": "<2en>"}
    options = TokenizerConfig(vocab_size=300, case_marks=False, split_digits=False)
    tagged = train_tokenizer([" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))], options, 0, tags)
    (tmp_path / "spiece.model").write_bytes(tagged.files["tokenizer.model"])
    config = import_checkpoint(tmp_path, tmp_path / "ours")
    read = load_tokenizer(tmp_path / "ours")
    assert config.languages == ("en", "fr")
    assert config.prompt.languages == tags
    assert read.encode("the cat", "fr") == [tagged.piece_id("<2fr>"), *tagged.encode("the cat")]
    assert config.model.vocab_size > len(read) == 300
