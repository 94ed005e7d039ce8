"""Corpora: clear errors for bad rows, filters that count, samples that are a function of the seed."""

import lzma
from pathlib import Path

import pytest

from model.training.config import Corpus, TrainConfig
from model.training.corpora import CorpusError, CorpusFilter, Pair, load_corpus, read_pairs, validation_marks
from tests.model.training.conftest import with_data


def test_reads_plain_and_xz(tmp_path: Path) -> None:
    # U+2028 and a carriage return are part of a sentence, not line ends.
    content = "a\u2028b\tc\nd\re\tf\n"
    plain, packed = tmp_path / "x.tsv", tmp_path / "x.tsv.xz"
    plain.write_text(content, newline="")
    packed.write_bytes(lzma.compress(content.encode()))
    assert list(read_pairs(plain)) == list(read_pairs(packed)) == [Pair("a\u2028b", "c"), Pair("d\re", "f")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        *((line, "expected two non-empty") for line in (b"no tab", b"a\tb\tc", b"a\t", b"\tb", b"")),
        (b"\xff\tmauvais", "not UTF-8"),
    ],
)
def test_bad_rows_are_named_by_line(tmp_path: Path, line: bytes, problem: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b"good\tbon\n" + line + b"\n")
    with pytest.raises(CorpusError, match=rf"x\.tsv:2: {problem}"):
        list(read_pairs(path))


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (Pair("Good morning", "Bonjour"), None),
        (Pair("one two three four five six", "un"), "unbalanced"),
        (Pair("Save As Text File", "Save As Text File"), "copy"),
        (Pair("OK", "OK"), None),
        (Pair("a " * 11, "b " * 11), "too long"),
        (Pair("The house is very old and quite small.", "Das Haus ist sehr alt und ziemlich klein."),
         "target in another language"),
        (Pair("In 1984 it fell.", "En 1985 il est tombé."), "numbers differ"),
        (Pair("Das Haus ist sehr alt und ziemlich klein.", "La maison est très vieille et assez petite."),
         "source in another language"),
    ],
)  # fmt: skip
def test_filters(experiment: TrainConfig, pair: Pair, reason: str | None) -> None:
    chosen = CorpusFilter(Corpus(path=Path("x"), max_words=10), experiment, set())
    assert chosen.keeps(pair) is (reason is None)
    assert dict(chosen.dropped) == ({} if reason is None else {reason: 1})


def test_languages_are_not_judged_when_the_config_says_so_or_unknown(experiment: TrainConfig) -> None:
    pair = Pair("Das Haus ist sehr alt und ziemlich klein.", "La maison est très vieille et assez petite.")
    corpus = Corpus(path=Path("x"))
    assert not CorpusFilter(corpus, experiment, set()).keeps(pair)
    assert CorpusFilter(corpus, with_data(experiment, check_language=False), set()).keeps(pair)
    assert CorpusFilter(corpus.model_copy(update={"source_language": "qaa"}), experiment, set()).keeps(pair)


def test_content_is_not_judged_when_the_config_says_so(experiment: TrainConfig) -> None:
    pair = Pair("In 1984 it fell.", "En 1985 il est tombé.")
    assert CorpusFilter(Corpus(path=Path("x")), with_data(experiment, check_content=False), set()).keeps(pair)


def test_few_words_are_not_judged_by_their_language(experiment: TrainConfig) -> None:
    """The identifier is sure too often of names and labels."""
    pair = Pair("Das Haus ist alt.", "La maison est vieille.")
    assert CorpusFilter(Corpus(path=Path("x")), experiment, set()).keeps(pair)


def test_a_corpus_is_sampled_without_duplicates_by_the_seed(experiment: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("".join(f"s{i % 50}\tt{i % 50}\n" for i in range(100)))
    corpus = Corpus(path=Path("x.tsv"), max_pairs=20)
    first, second = (load_corpus(corpus, experiment, tmp_path) for _ in range(2))
    assert first == second
    pairs, dropped = first
    assert len(set(pairs)) == len(pairs) == 20
    assert dropped.keys() == {"duplicate", "not sampled"}
    assert dropped.total() == 80
    assert load_corpus(corpus, experiment.model_copy(update={"seed": 2}), tmp_path) != first


def test_a_sample_is_drawn_before_bad_pairs_are_dropped_and_still_has_its_size(
    experiment: TrainConfig, tmp_path: Path
) -> None:
    """Filters look at as many pairs as the sample needs, not at the whole corpus; the order of the file stays."""
    rows = [f"s{i}\tt{i}\n" if i % 2 else f"s{i}?\tt{i}\n" for i in range(200)]
    (tmp_path / "x.tsv").write_text("".join(rows))
    pairs, dropped = load_corpus(Corpus(path=Path("x.tsv"), max_pairs=30), experiment, tmp_path)
    numbers = [int(pair.source[1:]) for pair in pairs]
    assert numbers == sorted(numbers)
    assert len(numbers) == 30
    assert all(number % 2 for number in numbers)
    assert dropped["question on one side"] < 70
    assert dropped.total() == 170


def test_pairs_are_tidied_unless_the_config_says_not(experiment: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("It’s me?\tC’est moi?\n", encoding="utf-8")
    corpus = Corpus(path=Path("x.tsv"))
    assert load_corpus(corpus, experiment, tmp_path)[0] == [Pair("It's me?", "C'est moi ?")]
    raw = load_corpus(corpus, with_data(experiment, tidy=False), tmp_path)
    assert raw[0] == [Pair("It’s me?", "C’est moi?")]


def test_a_pair_counts_once_among_all_corpora_of_its_languages(experiment: TrainConfig, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.tsv").write_text(f"yes\toui\n{name}\t{name}\n")
    seen: set[int] = set()
    corpora = [Corpus(path=Path(f"{name}.tsv")) for name in ("a", "b")]
    assert len(load_corpus(corpora[0], experiment, tmp_path, seen)[0]) == 2
    assert load_corpus(corpora[1], experiment, tmp_path, seen)[0] == [Pair("b", "b")]
    other = corpora[1].model_copy(update={"target_language": "de"})
    assert len(load_corpus(other, experiment, tmp_path, seen)[0]) == 2


@pytest.mark.parametrize("damage", [b"no archive", None])
def test_a_broken_archive_is_reported(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "x.tsv.xz"
    path.write_bytes(damage or lzma.compress(b"a\tb\n" * 1000)[:-30])
    with pytest.raises(CorpusError, match=r"x\.tsv\.xz: not a whole \.xz file, after line \d+"):
        list(read_pairs(path))


def test_lower_case(experiment: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("Go ON\tÉtait LÀ\n", encoding="utf-8")
    loaded = load_corpus(Corpus(path=Path("x.tsv")), with_data(experiment, lowercase=True), tmp_path)
    assert loaded[0] == [Pair("go on", "était là")]


@pytest.mark.parametrize(
    ("one", "other"),
    [("मैं कल यहाँ आऊँगा", "मैं काल यहाँ आऊँगा"), ("ฉันเดินไปที่นั่นทุกวัน", "ฉันเดินไปที่นั้นทุกวัน")],
)
def test_sentences_that_differ_in_their_vowel_signs_or_tones_are_others(one: str, other: str) -> None:
    marks = [set(validation_marks(Pair(text, "x"), ("hi", "en"))) for text in (one, other, f"{one}!")]
    assert not marks[0] & marks[1]
    assert marks[0] == marks[2]
    assert len(marks[0]) == 2, "the pair's and the longer side's"
