"""Packed pairs and batches: nothing lost, budgets kept, and an order that is a function of seed and epoch."""

from pathlib import Path

import numpy as np
import pytest

from model.checkpoint import save_checkpoint
from model.checkpoint_config import CheckpointConfig, Direction
from model.tokenizer import Tokenizer
from model.training import data
from model.training.config import AugmentConfig, Corpus, TrainConfig
from model.training.corpora import Pair
from model.training.data import PackedPairs, Part, changed_copies, epoch_batches, load_parts, pack, prepare
from model.transformer import Transformer

ENGLISH_FRENCH = Direction(source="en", target="fr")


@pytest.fixture
def packed(tmp_path: Path, tokenizer: Tokenizer) -> PackedPairs:
    pairs = [Pair("cat " * (1 + i % 7), "chat " * (1 + i % 5)) for i in range(200)]
    parts = [Part(pairs[:120], ENGLISH_FRENCH, 1), Part(pairs[120:], ENGLISH_FRENCH, 2)]
    return pack(parts, tokenizer, max_length=64, path=tmp_path)


def test_pack_keeps_every_id(packed: PackedPairs, tokenizer: Tokenizer) -> None:
    source, target = packed.batch(np.array([3, 0]), tokenizer.pad_id)
    assert source[0].tolist() == tokenizer.encode("cat " * 4)
    assert target[0].tolist() == tokenizer.encode("chat " * 4)
    assert source[1].tolist()[: len(tokenizer.encode("cat"))] == tokenizer.encode("cat")
    assert set(source[1].tolist()[len(tokenizer.encode("cat")) :]) == {tokenizer.pad_id}


def test_pack_drops_what_the_model_cannot_read(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pairs = [Pair("cat", "chat"), Pair("cat " * 90, "chat")]
    assert len(pack([Part(pairs, ENGLISH_FRENCH, 1)], tokenizer, 64, tmp_path)) == 1
    with pytest.raises(ValueError, match="no pairs are left for nothing"):
        pack([Part(pairs[1:], ENGLISH_FRENCH, 1)], tokenizer, 64, tmp_path / "nothing")


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


def test_several_directions_are_told_apart_by_tags(experiment: TrainConfig, tmp_path: Path) -> None:
    both = [corpus.model_copy(update={"both_directions": True}) for corpus in experiment.data.train]
    config = experiment.model_copy(update={"data": experiment.data.model_copy(update={"train": both})})
    assert [str(direction) for direction in config.directions()] == ["en-fr", "fr-en"]
    tokenizer, train, _ = prepare(config, tmp_path, tmp_path / "cache")
    pieces = sorted({int(train.ids[train.offsets[2 * i]]) for i in range(len(train))})
    assert pieces == sorted(tokenizer.encode("", language)[0] for language in ("en", "fr"))
    assert len(set(pieces)) == 2
    assert tokenizer.decode(tokenizer.encode("le chat", "en")) == "le chat"
    one_way, *_ = prepare(experiment, tmp_path, tmp_path / "one")
    assert one_way.encode("cat", "fr") == one_way.encode("cat")


def test_what_was_prepared_is_read_again_and_made_anew_for_other_data(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare(experiment, tmp_path, tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.setattr(data, "load_parts", lambda *_: pytest.fail("it was prepared before"))
        again = prepare(experiment, tmp_path, tmp_path / "cache")
    assert np.array_equal(again.train.ids, first.train.ids)
    lines = (tmp_path / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "train.tsv").write_text("".join(lines[:-5]), encoding="utf-8")
    assert len(prepare(experiment, tmp_path, tmp_path / "cache").train) == len(first.train) - 5
    augmented = experiment.data.model_copy(update={"augment": AugmentConfig(emoji=1.0)})
    other = prepare(experiment.model_copy(update={"data": augmented}), tmp_path, tmp_path / "cache")
    assert len(other.train) == 2 * (len(first.train) - 5)


def test_a_sample_of_a_training_corpus_can_be_validated_on(experiment: TrainConfig, tmp_path: Path) -> None:
    sample = [corpus.model_copy(update={"max_pairs": 20}) for corpus in experiment.data.train]
    watched = experiment.data.model_copy(update={"validation": sample})
    lines = (tmp_path / "train.tsv").read_text(encoding="utf-8").splitlines()
    _, train, validation = prepare(experiment.model_copy(update={"data": watched}), tmp_path, tmp_path / "cache")
    assert len(validation) == 20
    assert len(train) == len(lines) - 20


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
    """In one column of a longer sentence, or in both of a short one; whatever the case and the punctuation."""
    watched = "The house stood empty.\tLa maison était vide.\nThank you.\tMerci.\n"
    (tmp_path / "validation.tsv").write_text(watched, encoding="utf-8")
    source, target = row.split("\t")
    (tmp_path / "train.tsv").write_text(f"{row}\n", encoding="utf-8")
    (tmp_path / "turned.tsv").write_text(f"{target}\t{source}\n", encoding="utf-8")
    turned = Corpus(path=Path("turned.tsv"), source_language="fr", target_language="en")
    validated = load_parts(experiment.data.validation, experiment, tmp_path)
    parts = load_parts([*experiment.data.train, turned], experiment, tmp_path, validated)
    assert [len(part.pairs) for part in parts] == [is_kept, is_kept]


def test_half_a_repeat_is_every_other_epoch(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pairs = [Pair(f"cat {i}", "chat") for i in range(400)]
    packed = pack([Part(pairs, ENGLISH_FRENCH, 1.5)], tokenizer, max_length=64, path=tmp_path)
    counts = [np.bincount(np.concatenate(epoch_batches(packed, 256, 1, epoch)), minlength=400) for epoch in range(2)]
    for seen in counts:
        assert set(seen) == {1, 2}
        assert seen.sum() == pytest.approx(600, rel=0.1)
    assert (counts[0] != counts[1]).any()


def test_directions_that_a_tokenizer_or_a_validation_lacks_are_refused(
    experiment: TrainConfig, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    (tmp_path / "old").mkdir()
    described = CheckpointConfig(directions=(ENGLISH_FRENCH,), model=experiment.model)
    save_checkpoint(tmp_path / "old", described, Transformer(experiment.model).state_dict(), tokenizer)
    both = [corpus.model_copy(update={"both_directions": True}) for corpus in experiment.data.train]
    two_ways = experiment.data.model_copy(update={"train": both})
    config = experiment.model_copy(update={"data": two_ways, "start_from": tmp_path / "old"})
    with pytest.raises(ValueError, match=r"start_from: the tokenizer of .* has no tag for en, fr"):
        prepare(config, tmp_path, tmp_path / "cache")
    german = [corpus.model_copy(update={"target_language": "de"}) for corpus in experiment.data.validation]
    watched = experiment.data.model_copy(update={"validation": german})
    with pytest.raises(ValueError, match=r"data\.validation: validation\.tsv is en-de, which is not trained"):
        prepare(experiment.model_copy(update={"data": watched}), tmp_path, tmp_path / "cache")


def test_too_large_a_vocabulary_is_said(experiment: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("cat\tchat\n")
    with pytest.raises(ValueError, match=r"tokenizer\.vocab_size: .*too high \(320\)"):
        prepare(experiment, tmp_path, tmp_path / "cache")


def test_changed_copies_join_each_time_a_pair_is_repeated(experiment: TrainConfig, tmp_path: Path) -> None:
    data = experiment.data.model_copy(update={"augment": AugmentConfig(emoji=1.0)})
    twice = [corpus.model_copy(update={"repeat": 2}) for corpus in data.train]
    config = experiment.model_copy(update={"data": data.model_copy(update={"train": twice})})
    [part] = load_parts(config.data.train, config, tmp_path)
    copies = list(changed_copies([part], config))
    assert [len(copy.pairs) for copy in copies] == [len(part.pairs)] * 2
    assert copies[0].pairs != copies[1].pairs
