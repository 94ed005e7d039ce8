"""Text survives the tokenizer, and streaming it a token at a time gives the same text."""

import io
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from model.case_marks import CASE_MARKS, VISIBLE, CaseRestorer, mark_case
from model.tokenizer import Detokenizer, Prompt, Tokenizer


@pytest.mark.parametrize("text", ["the cat sat", "le chat a mangé", "日本語 😀 ok", "a\u0301 naïve", "x" * 300])
def test_round_trip_with_byte_fallback(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids[-1] == tokenizer.eos_id
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


@pytest.fixture(params=["tokenizer", "case_marked_tokenizer"])
def any_tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    found: Tokenizer = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "the cat sat",
        "  the   cat ",
        "caf\u00e9 \uff21\uff22 \ufb01n",
        "\u65e5\u672c\u8a9e \U0001f600 ok",
        "THE CAT SAT on The mat, iPhone  MAT",
        "",
        " ",
    ],
)
def test_spans_cover_the_text_in_order(any_tokenizer: Tokenizer, text: str) -> None:
    tokenizer = any_tokenizer
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


def test_marks_for_case_are_in_the_vocabulary_or_not(tokenizer: Tokenizer, case_marked_tokenizer: Tokenizer) -> None:
    assert not tokenizer.marks_case
    assert case_marked_tokenizer.marks_case
    word = case_marked_tokenizer.encode("cat")[:-1]
    for text in ("Cat", "CAT"):
        mark, *rest, _ = case_marked_tokenizer.encode(text)
        assert rest == word
        assert case_marked_tokenizer.marked_bytes(mark).decode() in CASE_MARKS


@pytest.mark.parametrize(
    "text",
    [
        "the cat sat",
        "The CAT sat on an iPhone",
        "THE RED CAT ATE, and then Ran",
        "\u00c9t\u00e9 \u65e5\u672c\u8a9e \U0001f600 ok",
        "it cost 1234 in U.S. dollars",
        "LA MAISON",
    ],
)
def test_case_survives_the_case_marked_tokenizer(case_marked_tokenizer: Tokenizer, text: str) -> None:
    assert case_marked_tokenizer.decode(case_marked_tokenizer.encode(text)) == text


def test_text_that_is_continued_leaves_no_passage_of_capitals_open(case_marked_tokenizer: Tokenizer) -> None:
    begin, end = case_marked_tokenizer.encode_target("LA MAISON"), case_marked_tokenizer.encode_target("le chat")
    assert case_marked_tokenizer.decode([*begin, *end]) == "LA MAISON le chat"
    assert case_marked_tokenizer.decode(case_marked_tokenizer.encode_target("LA MAISON est")) == "LA MAISON est"


@pytest.mark.parametrize("term", ["Chat", "CHAT", "chat", "LE CHAT", "iPhone"])
def test_a_term_is_recognised_by_a_word(tokenizer: Tokenizer, case_marked_tokenizer: Tokenizer, term: str) -> None:
    """A mark of case would stand for every capitalised word."""
    assert case_marked_tokenizer.encode_term(term) == case_marked_tokenizer.encode_target(term.lower())
    assert tokenizer.encode_term(term) == tokenizer.encode_target(term)


@given(ids=st.lists(st.integers(min_value=0, max_value=319), max_size=30))
def test_streamed_case_marked_text_is_the_whole_text_at_every_moment(
    case_marked_tokenizer: Tokenizer, ids: list[int]
) -> None:
    """Any ids are tried, marks without words among them; a copy of a stream goes on by itself."""
    stream, text = Detokenizer(case_marked_tokenizer), ""
    for count, token_id in enumerate(ids, 1):
        text += stream.push(token_id)
        marked = b"".join(map(case_marked_tokenizer.marked_bytes, ids[:count])).decode(errors="ignore")
        assert text + stream.copy().flush() == CaseRestorer().push(marked).removeprefix(" ")
        assert case_marked_tokenizer.decode(ids[:count]) == text + stream.copy().flush()


@pytest.mark.parametrize("length", [1, 3, 100])
@pytest.mark.parametrize("text", ["The CAT sat, 😀 and THE DOG RAN. Red House", "the cat\nsat 12"])
def test_several_tokens_at_once_give_the_texts_of_one_after_the_other(
    any_tokenizer: Tokenizer, text: str, length: int
) -> None:
    ids = any_tokenizer.encode(text)
    one_by_one, at_once = Detokenizer(any_tokenizer), Detokenizer(any_tokenizer)
    expected = [one_by_one.push(token_id) for token_id in ids]
    parts = [ids[start : start + length] for start in range(0, len(ids), length)]
    assert [each for part in parts for each in at_once.push_all(part)] == expected


def test_a_case_mark_is_no_text_by_itself(case_marked_tokenizer: Tokenizer) -> None:
    marks = [case_marked_tokenizer.piece_id(mark) for mark in CASE_MARKS]
    assert [case_marked_tokenizer.piece_bytes(mark) for mark in marks] == [b""] * len(marks)
    assert [case_marked_tokenizer.label(mark) for mark in marks] == [*VISIBLE.values()]
    assert case_marked_tokenizer.label(case_marked_tokenizer.piece_id("</s>")) == ""
    assert [case_marked_tokenizer.marked_bytes(mark).decode() for mark in marks] == list(CASE_MARKS)
    assert case_marked_tokenizer.piece_bytes(case_marked_tokenizer.encode("cat")[-2]) != b""


@pytest.mark.parametrize("text", ["the CAT sat", "A Red House", "  THE CAT  SAT and Ran"])
def test_spans_of_case_marked_pieces_point_at_the_text_before_marking(
    case_marked_tokenizer: Tokenizer, text: str
) -> None:
    spans = case_marked_tokenizer.spans(text)
    for token_id, span in zip(case_marked_tokenizer.encode(text), spans, strict=True):
        piece = case_marked_tokenizer.marked_bytes(token_id).decode(errors="ignore").strip()
        if span is None or not piece or piece in CASE_MARKS:
            continue
        start, end = span
        assert mark_case(text[start:end]).text.translate({ord(mark): None for mark in CASE_MARKS}).strip() == piece


def test_a_mark_stands_for_the_characters_of_its_word(case_marked_tokenizer: Tokenizer) -> None:
    ids = case_marked_tokenizer.encode("the CAT")
    spans = case_marked_tokenizer.spans("the CAT")
    mark = ids.index(case_marked_tokenizer.piece_id(CASE_MARKS[1]))
    assert spans[mark] is not None
    assert spans[mark] == spans[mark + 1]


def test_pieces_are_sampled_where_sampling_is_requested(case_marked_tokenizer: Tokenizer) -> None:
    text = "the small house and the big table"
    assert len({tuple(case_marked_tokenizer.encode(text)) for _ in range(5)}) == 1
    sampled = {tuple(case_marked_tokenizer.encode(text, sampling=0.2)) for _ in range(20)}
    assert len(sampled) > 5
    assert {case_marked_tokenizer.decode(ids) for ids in sampled} == {text}


def test_characters_without_a_piece_are_not_spelled() -> None:
    tokenizer = Tokenizer.from_directory(Path("model/pretrained/en-fr"))
    assert tokenizer.unspelled("Où est Modrić ? Ici, ÊTRE 12 % « œuvre »") == {"ć"}
    assert tokenizer.unspelled("a\\b ① ★ ™") == {"\\", "①", "★", "™"}
    assert tokenizer.unspelled("a\\b ① ★ ™") == {"\\", "①", "★", "™"}  # as the second time


def test_a_capital_is_spelled_by_its_small_letter(tokenizer: Tokenizer) -> None:
    assert tokenizer.unspelled("THE CAT \u0106") == {"\u0106"}
