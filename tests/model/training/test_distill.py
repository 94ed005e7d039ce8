"""Distillation: the teacher's translations in the place of the references, and nothing twice after an interruption."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from model.training import data
from model.training import distill as module
from model.training.config import TrainConfig
from model.training.corpora import read_pairs
from model.training.distill import TeacherOptions, distill
from model.training.evaluate import DecodingOptions, OfflineTranslator, Translation
from model.training.train import train


@pytest.fixture
def teacher(experiment: TrainConfig, tmp_path: Path) -> Path:
    """One that has learned nothing yet, for tests that say themselves what it answers."""
    short = experiment.optimiser.model_copy(update={"max_steps": 1})
    return train(experiment.model_copy(update={"optimiser": short}), tmp_path, tmp_path / "teacher")


def test_the_corpora_say_what_the_teacher_says(experiment: TrainConfig, tmp_path: Path) -> None:
    teacher = train(experiment, tmp_path, tmp_path / "teacher")
    (tmp_path / "train.tsv").write_text("red cat\tx\nthe dog\tx\nthe dog\ty\n", encoding="utf-8")
    [path] = distill(experiment, teacher, tmp_path, tmp_path / "distilled")
    assert list(read_pairs(path)) == [("red cat", "CAT"), ("the dog", "DOG")]
    before = path.stat().st_mtime_ns
    assert distill(experiment, teacher, tmp_path, tmp_path / "distilled") == [path]
    assert path.stat().st_mtime_ns == before, "what is there is not made again"


def test_an_interrupted_call_goes_on(
    experiment: TrainConfig, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["cat", "dog", "mat", "hat"]
    (tmp_path / "train.tsv").write_text("".join(f"{word}\tx\n" for word in words))
    asked: list[str] = []
    failing = True

    def translate(translator: OfflineTranslator, texts: list[str], *_: object) -> Iterator[Translation]:
        for text in texts:
            if failing and text == "mat":
                raise KeyboardInterrupt
            asked.append(text)
            yield Translation(text.upper(), 3)

    monkeypatch.setattr(module, "translate_all", translate)
    with pytest.raises(KeyboardInterrupt):
        distill(experiment, teacher, tmp_path, tmp_path / "distilled")
    partial = tmp_path / "distilled" / "00-en-fr.partial"
    partial.write_text(partial.read_text() + "ma", encoding="utf-8")
    failing = False
    [path] = distill(experiment, teacher, tmp_path, tmp_path / "distilled")
    assert asked == words
    assert list(read_pairs(path)) == [(word, word.upper()) for word in words]
    assert not partial.exists()


def test_translations_that_never_end_are_left_out(
    experiment: TrainConfig, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = experiment.model.max_positions
    cut = Translation("DOG DOG", 7, ended=False)
    answers = [Translation("CAT", 3), cut, Translation("", 1), Translation("a\tb\nc", 5)]
    (tmp_path / "train.tsv").write_text(f"cat\tx\ndog\tx\nmat\tx\n{'cat ' * longest}\tx\nhat\tx\n")
    monkeypatch.setattr(module, "translate_all", lambda *_: iter(answers))
    [path] = distill(experiment, teacher, tmp_path, tmp_path / "distilled")
    assert list(read_pairs(path)) == [("cat", "CAT"), ("hat", "a b c")]


def test_what_is_validated_on_is_not_translated(
    experiment: TrainConfig, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.tsv").write_text("cat\tx\nDog!\tY\n")
    (tmp_path / "validation.tsv").write_text("dog\ty\n")
    monkeypatch.setattr(module, "translate_all", lambda _, texts, *__: (Translation(text, 1) for text in texts))
    [path] = distill(experiment, teacher, tmp_path, tmp_path / "distilled")
    assert list(read_pairs(path)) == [("cat", "cat")]


def test_what_other_filters_left_is_not_gone_on_with(
    experiment: TrainConfig, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that are there would be counted as those of other sources."""
    (tmp_path / "train.tsv").write_text("dog\ty\ncat\tx\n")
    (tmp_path / "validation.tsv").write_text("dog\ty\n")
    with monkeypatch.context() as before:
        before.setattr(data, "validation_marks", lambda *_: iter(()))
        distill(experiment, teacher, tmp_path, tmp_path / "distilled")
    with pytest.raises(ValueError, match=r"distilled-from\.json"):
        distill(experiment, teacher, tmp_path, tmp_path / "distilled")


def test_another_teacher_or_direction_is_refused(experiment: TrainConfig, teacher: Path, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("cat\tx\n")
    distill(experiment, teacher, tmp_path, tmp_path / "distilled")
    other = TeacherOptions(DecodingOptions(beam_size=2))
    with pytest.raises(ValueError, match="holds what another teacher, corpus, experiment or search gave"):
        distill(experiment, teacher, tmp_path, tmp_path / "distilled", other)
    (tmp_path / "train.tsv").write_text("dog\tx\n")
    with pytest.raises(ValueError, match="holds what another teacher, corpus"):
        distill(experiment, teacher, tmp_path, tmp_path / "distilled")
    german = experiment.model_copy(update={"source_language": "de"})
    with pytest.raises(ValueError, match=r"does not translate de-fr"):
        distill(german, teacher, tmp_path, tmp_path / "other")
