"""Text survives the tokenizer, and streaming it a token at a time gives the same text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.tokenizer import Detokenizer, Tokenizer


@pytest.mark.parametrize("text", ["the cat sat", "le chat a mangé", "日本語 😀 ok", "a\u0301 naïve", "x" * 300])
def test_round_trip_with_byte_fallback(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids[-1] == tokenizer.eos_id
    import unicodedata

    assert tokenizer.decode(ids) == unicodedata.normalize("NFKC", text)


@given(ids=st.lists(st.integers(min_value=0, max_value=319), max_size=30))
def test_streamed_pieces_add_up_and_are_never_taken_back(tokenizer: Tokenizer, ids: list[int]) -> None:
    """For any ids, broken bytes among them."""
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(token_id) for token_id in ids]
    text = "".join(pieces) + detokenizer.flush()
    whole = b"".join(map(tokenizer.piece_bytes, ids)).decode(errors="replace").removeprefix(" ")
    assert text == whole == tokenizer.decode(ids)


def test_an_unfinished_character_is_held_back(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("😀")
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(token_id) for token_id in ids]
    assert "".join(pieces) == "😀"
    assert [piece for piece in pieces if piece] == ["😀"]


def test_special_ids(tokenizer: Tokenizer) -> None:
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2)
    assert [tokenizer.piece_bytes(i) for i in range(3)] == [b"", b"", b""]
    assert len(tokenizer) == 320
