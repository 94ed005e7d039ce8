"""Corpora: clear errors for bad rows, filters, and batches that are a function of seed and epoch."""

import lzma
from pathlib import Path

import numpy as np
import pytest

from model.tokenizer import Tokenizer
from model.training.config import Corpus, DataConfig
from model.training.data import CorpusError, PackedPairs, Pair, epoch_batches, keep, load_corpus, pack, read_pairs


def _corpus(path: Path, **options: object) -> tuple[Corpus, DataConfig]:
    corpus = Corpus.model_validate({"path": path.name, **options})
    return corpus, DataConfig(train=[corpus], validation=corpus)


def test_reads_plain_and_xz(tmp_path: Path) -> None:
    # U+2028 and a carriage return are part of a sentence, not line ends.
    content = "a\u2028b\tc\nd\re\tf\n"
    plain, packed = tmp_path / "x.tsv", tmp_path / "x.tsv.xz"
    plain.write_text(content, newline="")
    packed.write_bytes(lzma.compress(content.encode()))
    assert list(read_pairs(plain)) == list(read_pairs(packed)) == [Pair("a\u2028b", "c"), Pair("d\re", "f")]


@pytest.mark.parametrize("line", ["no tab", "a\tb\tc", "a\t", "\tb", ""])
def test_bad_rows_are_named_by_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(f"good\tbon\n{line}\n")
    with pytest.raises(CorpusError, match=r"x\.tsv:2: expected two non-empty"):
        list(read_pairs(path))


@pytest.mark.parametrize(
    ("pair", "kept"),
    [
        (Pair("Good morning", "Bonjour"), True),
        (Pair("one two three four five six", "un"), False),
        (Pair("Save As Text File", "Save As Text File"), False),
        (Pair("OK", "OK"), True),
        (Pair("a " * 11, "b " * 11), False),
    ],
)
def test_filters(pair: Pair, kept: bool) -> None:
    assert keep(pair, Corpus(path=Path("x"), max_words=10), max_length_ratio=2.5) is kept


def test_sampling_is_deterministic_and_unique(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("".join(f"s{i % 50}\tt{i % 50}\n" for i in range(100)))
    corpus, data = _corpus(path, max_pairs=20)
    first, second = (load_corpus(corpus, data, tmp_path, seed=1) for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first) == 20
    assert load_corpus(corpus, data, tmp_path, seed=2) != first


@pytest.fixture
def packed(tmp_path: Path, tokenizer: Tokenizer) -> PackedPairs:
    pairs = [Pair("cat " * (1 + i % 7), "chat " * (1 + i % 5)) for i in range(200)]
    return pack(pairs, [1 + i % 2 for i in range(200)], tokenizer, max_length=64, path=tmp_path)


def test_pack_keeps_every_id(packed: PackedPairs, tokenizer: Tokenizer) -> None:
    source, target = packed.batch(np.array([3, 0]), tokenizer.pad_id)
    assert source[0].tolist() == tokenizer.encode("cat " * 4)
    assert target[0].tolist() == tokenizer.encode("chat " * 4)
    assert source[1].tolist()[: len(tokenizer.encode("cat"))] == tokenizer.encode("cat")
    assert set(source[1].tolist()[len(tokenizer.encode("cat")) :]) == {tokenizer.pad_id}


def test_pack_drops_what_the_model_cannot_read(tmp_path: Path, tokenizer: Tokenizer) -> None:
    assert len(pack([Pair("cat", "chat"), Pair("cat " * 90, "chat")], [1, 1], tokenizer, 64, tmp_path)) == 1


def test_an_epoch_sees_each_pair_as_often_as_asked(packed: PackedPairs) -> None:
    seen = np.bincount(np.concatenate(epoch_batches(packed, 256, seed=1, epoch=0)), minlength=200)
    assert seen.tolist() == packed.repeats.tolist()


def test_batches_keep_their_budget(packed: PackedPairs) -> None:
    lengths = packed.lengths()
    for batch in epoch_batches(packed, 256, seed=1, epoch=0):
        assert lengths[batch].max(axis=0).sum() * len(batch) <= 256


def test_order_depends_on_seed_and_epoch_alone(packed: PackedPairs) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in epoch_batches(packed, 256, seed, epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)
