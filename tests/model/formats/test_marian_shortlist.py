"""Firefox's lexical shortlists: read whole and checked, or refused with the name of the file."""

import struct
from pathlib import Path

import pytest

from model.checkpoint import load_shortlist
from model.checkpoint_config import CheckpointError, LanguageHint, load_config
from model.formats import import_checkpoint
from tests.model.formats.marian_models import EOS, MarianModel, size_of, write_tiny
from tests.model.formats.marian_shortlists import FIRST, shortlist_file, some_lists
from tests.shortlists import words_of

HINT = LanguageHint("en", "pt")
LEX = "lex.50.50.enpt.s2t.bin"


def test_of_a_shared_vocabulary_each_word_can_be_copied(tmp_path: Path, vocabulary: bytes) -> None:
    write_tiny(tmp_path, vocabulary)
    size = size_of(vocabulary)
    lists = some_lists(size, size)
    (tmp_path / LEX).write_bytes(shortlist_file(lists))
    config = import_checkpoint(tmp_path, tmp_path / "made")
    assert config.has_shortlist
    shortlist = load_shortlist(tmp_path / "made")
    assert shortlist is not None
    assert shortlist.always.tolist() == sorted({*range(FIRST), EOS})
    for word in range(size):
        assert words_of(shortlist, [word]) == {*range(FIRST), EOS, word, *lists[word]}


def test_two_vocabularies_and_words_after_the_last_offset(
    tmp_path: Path, vocabulary: bytes, other_vocabulary: bytes
) -> None:
    source, target = size_of(vocabulary), size_of(other_vocabulary)
    model = MarianModel(source, target, **{"tied-embeddings-all": False, "tied-embeddings": True})
    model.write_binary(tmp_path / "model.enja.intgemm8.bin", quantised=True)
    (tmp_path / "srcvocab.enja.spm").write_bytes(vocabulary)
    (tmp_path / "trgvocab.enja.spm").write_bytes(other_vocabulary)
    lists = some_lists(source - 2, target)
    (tmp_path / LEX).write_bytes(shortlist_file(lists, first=1000))
    import_checkpoint(tmp_path, tmp_path / "made", HINT)
    shortlist = load_shortlist(tmp_path / "made")
    assert shortlist is not None
    assert shortlist.always.tolist() == [*range(target)]
    ours = [shortlist.words[start:end].tolist() for start, end in zip(*_ends(shortlist.offsets.tolist()), strict=True)]
    assert ours == [*lists, [], []]


def _ends(offsets: list[int]) -> tuple[list[int], list[int]]:
    return offsets[:-1], offsets[1:]


def test_a_directory_without_one(tmp_path: Path, vocabulary: bytes) -> None:
    write_tiny(tmp_path, vocabulary)
    import_checkpoint(tmp_path, tmp_path / "made")
    assert not load_config(tmp_path / "made").has_shortlist


def _damaged(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_what_is_wrong_is_said_with_the_file_s_name(tmp_path: Path, vocabulary: bytes) -> None:
    write_tiny(tmp_path, vocabulary)
    size = size_of(vocabulary)
    lists = some_lists(size, size)
    good = shortlist_file(lists)
    cases = {
        "is not a lexical shortlist: it ends too early": good[:47],
        "is not a lexical shortlist in Marian's binary format": _damaged(good, 0),
        f"has {len(good) - 1} bytes, its header says {len(good)}": good[:-1],
        f"has {len(good) + 1} bytes, its header says {len(good)}": good + b"x",
        "its checksum is wrong: it is damaged": _damaged(good, len(good) // 2),
        "its offsets do not cover its": shortlist_file(lists, end=1),
        f"has {size + 2} source words, the model {size + 1}": shortlist_file([*lists, [], []]),
        "it has a word that is none of the": shortlist_file([*lists[:-1], [size + 1]]),
        f"has 48 bytes, its header says {48 + 8 * (2**61 - 1)}": good[:32] + struct.pack("<2Q", 2**61 - 1, 0),
    }
    for problem, content in cases.items():
        (tmp_path / LEX).write_bytes(content)
        with pytest.raises(CheckpointError) as caught:
            import_checkpoint(tmp_path, tmp_path / "made")
        assert str(caught.value).startswith(f"{tmp_path / LEX}: {problem}"), problem
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "made").exists()


def test_several(tmp_path: Path, vocabulary: bytes) -> None:
    write_tiny(tmp_path, vocabulary)
    for name in (LEX, "lex.50.50.enes.s2t.bin"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"has several shortlists: lex\.50\.50\.enes\.s2t\.bin, lex\.50"):
        import_checkpoint(tmp_path, tmp_path / "made")
