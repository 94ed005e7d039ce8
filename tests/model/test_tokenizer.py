"""Text survives the tokenizer, and streaming it a token at a time gives the same text."""

import io
from collections.abc import Callable

import pytest
import sentencepiece
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from model.tokenizer import Detokenizer, Prompt, Tokenizer


@pytest.mark.parametrize("text", ["the cat sat", "le chat a mangé", "日本語 😀 ok", "a\u0301 naïve", "x" * 300])
def test_round_trip_with_byte_fallback(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids[-1] == tokenizer.eos_id
    import unicodedata

    assert tokenizer.decode(ids) == unicodedata.normalize("NFKC", text)


@given(ids=st.lists(st.integers(min_value=0, max_value=319), max_size=30))
def test_streamed_pieces_add_up_and_are_never_taken_back(tokenizer: Tokenizer, ids: list[int]) -> None:
    """Any ids are decoded, broken bytes among them."""
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(token_id) for token_id in ids]
    text = "".join(pieces) + detokenizer.flush()
    whole = b"".join(map(tokenizer.piece_bytes, ids)).decode(errors="ignore").removeprefix(" ")
    assert text == whole == tokenizer.decode(ids)


def test_an_unfinished_character_is_held_back(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("😀")
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(token_id) for token_id in ids]
    assert "".join(pieces) == "😀"
    assert [piece for piece in pieces if piece] == ["😀"]


def test_what_never_becomes_a_character_is_left_out(tokenizer: Tokenizer) -> None:
    emoji = tokenizer.encode("😀")[:-1]
    assert tokenizer.decode([*emoji[:-1], *tokenizer.encode("go")]) == " go"
    assert tokenizer.decode(emoji[:-1]) == ""


TAGS = Prompt(languages={"en": "<2en>", "fr": "<2fr>"})


def _unigram_with_tags() -> dict[str, bytes]:
    """A tokenizer like MADLAD's, where tags are pieces like any other."""
    words = ["<unk>", "</s>", "<2en>", "<2fr>", "\u2581the", "\u2581", *"<2fr>the"]
    made = tokenizers.Tokenizer(tokenizers.models.Unigram([(word, -1.0) for word in words], unk_id=0))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.decoder = tokenizers.decoders.Metaspace()
    return {"tokenizer.json": made.to_str().encode()}


def _sentencepiece_with_tags() -> dict[str, bytes]:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat", "then he ate"] * 20),
        model_writer=written,
        vocab_size=18,
        user_defined_symbols=["<2en>", "<2fr>"],
        minloglevel=1,
    )
    return {"tokenizer.model": written.getvalue()}


@pytest.mark.parametrize("files", [_unigram_with_tags, _sentencepiece_with_tags])
def test_a_text_cannot_choose_its_language(files: Callable[[], dict[str, bytes]]) -> None:
    read = Tokenizer(files(), TAGS)
    french = read.piece_id("<2fr>")
    first, *middle, last = read.encode("the <2fr>", "en")
    assert (first, last) == (read.piece_id("<2en>"), read.eos_id)
    assert french not in middle
    assert len(middle) >= 2
    assert read.piece_bytes(french) == b""


def test_words_before_a_text_are_no_tags(tokenizer: Tokenizer) -> None:
    """T5's languages are words, which stand in texts as well."""
    words = Prompt(languages={"en": "the", "fr": "\u2581cat"}, text_prefix="{source} {target}: ", source_prefix=())
    read = Tokenizer(tokenizer.files, words)
    assert read.decode(read.encode("the cat", "en", "fr")) == "\u2581cat the: the cat".replace("\u2581", "")


@pytest.mark.parametrize("files", [_unigram_with_tags, _sentencepiece_with_tags])
def test_an_id_that_has_no_piece_is_no_text(files: Callable[[], dict[str, bytes]]) -> None:
    read = Tokenizer(files(), TAGS)
    the = read.encode("the")[:-1]
    assert read.decode([*the, len(read), len(read) + 1]) == "the"


def test_special_ids(tokenizer: Tokenizer) -> None:
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2)
    assert [tokenizer.piece_bytes(i) for i in range(3)] == [b"", b"", b""]
    assert len(tokenizer) == 320


@pytest.mark.parametrize(
    "text",
    ["the cat sat", "  the   cat ", "caf\u00e9 \uff21\uff22 \ufb01n", "\u65e5\u672c\u8a9e \U0001f600 ok", "", " "],
)
def test_spans_cover_the_text_in_order(tokenizer: Tokenizer, text: str) -> None:
    spans = tokenizer.spans(text)
    assert len(spans) == len(tokenizer.encode(text))
    assert spans[-1] is None
    covered = [span for span in spans if span is not None]
    assert covered == sorted(covered)
    assert all(text[start:end].strip() == text[start:end] != "" for start, end in covered)
    characters = {index for start, end in covered for index in range(start, end)}
    assert characters == {index for index, character in enumerate(text) if not character.isspace()}


def test_all_bytes_of_a_character_stand_for_it(tokenizer: Tokenizer) -> None:
    spans = tokenizer.spans("the \U0001f600")
    assert spans[-5:] == [(4, 5)] * 4 + [None]
