"""Parts: what is validated on is not trained on, directions, and a tokenizer of the text."""

import logging
from pathlib import Path

import pytest

from model.case_marks import CASE_MARKS
from model.checkpoint_config import Direction
from model.training.config import Corpus, TokenizerConfig, TrainConfig
from model.training.corpora import Pair
from model.training.data import Part, load_parts, train_tokenizer
from model.training.prepare import prepare
from tests.conftest import WORDS
from tests.model.training.conftest import with_data

SENTENCES = [f"{first} {second} 12 345" for first in WORDS for second in WORDS]


def test_a_corpus_in_both_directions_is_two_parts(experiment: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "x.y.tsv").write_text("cat\tchat\n", encoding="utf-8")
    corpus = Corpus(path=Path("x.y.tsv"), both_directions=True, repeat=3)
    there, back = load_parts([corpus], experiment, tmp_path)
    assert there == Part("x", [Pair("cat", "chat")], Direction(source="en", target="fr"), 3)
    assert back == Part("x", [Pair("chat", "cat")], Direction(source="fr", target="en"), 3)


def test_the_columns_of_a_reversed_corpus_change_places(experiment: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("chat\tcat\n", encoding="utf-8")
    [part] = load_parts([Corpus(path=Path("x.tsv"), reversed=True)], experiment, tmp_path)
    assert part == Part("x", [Pair("cat", "chat")], Direction(source="en", target="fr"), 1)


def test_the_log_counts_what_was_dropped(
    experiment: TrainConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x.tsv").write_text("cat\tchat\ncat\tchat\nyou?\ttoi\n", encoding="utf-8")
    with caplog.at_level(logging.INFO, logger="model.training"):
        load_parts([Corpus(path=Path("x.tsv"))], experiment, tmp_path)
    assert caplog.messages == ["x.tsv: 1 pairs {'duplicate': 1, 'question on one side': 1}"]


def test_a_sample_of_a_training_corpus_can_be_validated_on(experiment: TrainConfig, tmp_path: Path) -> None:
    sample = [corpus.model_copy(update={"max_pairs": 20}) for corpus in experiment.data.train]
    lines = (tmp_path / "train.tsv").read_text(encoding="utf-8").splitlines()
    pack = prepare(with_data(experiment, validation=sample), tmp_path, tmp_path / "pack")
    assert len(pack.validation) == 20
    assert len(pack.train) == len(lines) - 20


@pytest.mark.parametrize(
    ("row", "is_kept"),
    [
        ("The house stood empty.\tLa maison est restée vide.", False),
        ("the house stood empty\tUne autre traduction.", False),
        ("Another source\tLa maison était vide !", False),
        ("The house stands empty.\tLa maison est vide.", True),
        ("thank you!\tmerci !", False),
        ("Thank you.\tJe te remercie.", True),
    ],
)
def test_training_leaves_out_what_is_like_a_validated_pair(
    experiment: TrainConfig, tmp_path: Path, row: str, is_kept: bool
) -> None:
    """One column of a longer sentence counts, or both of a short one; case and punctuation do not."""
    watched = "The house stood empty.\tLa maison était vide.\nThank you.\tMerci.\n"
    (tmp_path / "validation.tsv").write_text(watched, encoding="utf-8")
    source, target = row.split("\t")
    (tmp_path / "train.tsv").write_text(f"{row}\n", encoding="utf-8")
    (tmp_path / "turned.tsv").write_text(f"{target}\t{source}\n", encoding="utf-8")
    turned = Corpus(path=Path("turned.tsv"), source_language="fr", target_language="en")
    validated = load_parts(experiment.data.validation, experiment, tmp_path)
    parts = load_parts([*experiment.data.train, turned], experiment, tmp_path, validated)
    assert [len(part.pairs) for part in parts] == [is_kept, is_kept]


def test_digits_are_pieces_of_their_own_or_not() -> None:
    plain = train_tokenizer(SENTENCES, TokenizerConfig(vocab_size=300, split_digits=False), seed=0)
    split = train_tokenizer(SENTENCES, TokenizerConfig(vocab_size=300), seed=0)
    assert len(plain.encode("345")) < len(split.encode("345"))
    assert [split.marked_bytes(token_id) for token_id in split.encode("345")[-4:-1]] == [b"3", b"4", b"5"]


def test_case_marks_are_pieces_of_their_own() -> None:
    tokenizer = train_tokenizer(SENTENCES, TokenizerConfig(vocab_size=300), seed=0)
    assert tokenizer.marks_case
    pieces = [tokenizer.marked_bytes(token_id).decode(errors="ignore") for token_id in range(len(tokenizer))]
    assert [piece for piece in pieces if set(piece) & set(CASE_MARKS)] == list(CASE_MARKS)


def test_a_tokenizer_has_a_tag_for_each_of_several_targets_and_none_for_one() -> None:
    options = TokenizerConfig(vocab_size=300)
    several, one = (train_tokenizer(SENTENCES, options, 0, targets) for targets in (["fr", "en"], ["fr"]))
    assert several.has_tag("fr")
    assert several.has_tag("en")
    assert not one.has_tag("fr")


def test_a_tokenizer_learns_from_a_sample_that_the_seed_draws() -> None:
    def learned(seed: int, sample: int) -> bytes:
        options = TokenizerConfig(vocab_size=300)
        return train_tokenizer(SENTENCES, options, seed, sample=sample).files["tokenizer.model"]

    assert learned(1, 450) == learned(1, 450)
    assert learned(1, 450) != learned(2, 450)
    assert learned(1, len(SENTENCES)) == learned(2, len(SENTENCES))
