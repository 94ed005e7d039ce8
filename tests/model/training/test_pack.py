"""A pack is a function of its text and settings, opens anywhere, and is refused once a byte of it is another."""

import os
import shutil
from pathlib import Path

import pytest

from model.checkpoint import save_checkpoint
from model.checkpoint_config import CheckpointConfig, Direction
from model.tokenizer import TRAINED_FILE, Tokenizer
from model.training import prepare as module
from model.training.config import AugmentConfig, Corpus, TrainConfig
from model.training.pack import PACK_FILE, PACK_FILES, Pack, PackError, check_pack, load_pack
from model.training.prepare import prepare
from model.transformer import Transformer
from tests.disks import SmallDisk
from tests.model.training.conftest import with_data, with_options

ENGLISH_FRENCH = Direction(source="en", target="fr")


def _contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def _save_checkpoint(directory: Path, config: TrainConfig, tokenizer: Tokenizer) -> Path:
    directory.mkdir()
    described = CheckpointConfig(directions=(ENGLISH_FRENCH,), model=config.model)
    save_checkpoint(directory, described, Transformer(config.model).state_dict(), tokenizer)
    return directory


def _both_ways(experiment: TrainConfig) -> TrainConfig:
    return with_data(
        experiment, train=[corpus.model_copy(update={"both_directions": True}) for corpus in experiment.data.train]
    )


def test_a_pack_holds_every_pair_with_its_ends(pack: Pack, tmp_path: Path) -> None:
    lines = [line.split("\t") for line in (tmp_path / "train.tsv").read_text(encoding="utf-8").splitlines()]
    validated = (tmp_path / "validation.tsv").read_text(encoding="utf-8").splitlines()
    expected = [line for line in lines if "\t".join(line) not in validated]
    encode = pack.tokenizer.encode
    assert len(pack.train) == len(expected) > 500
    assert len(pack.validation) == len(validated)
    for index in (0, 1, len(pack.train) - 1):
        source, target = pack.train.pair(index)
        assert (source.tolist(), target.tolist()) == tuple(map(encode, expected[index]))
    assert sum(part.pairs for part in pack.info.train) == len(pack.train)


def test_equal_text_and_settings_make_equal_packs_wherever_and_whenever(
    experiment: TrainConfig, pack: Pack, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("train.tsv", "validation.tsv"):
        shutil.copy(tmp_path / name, elsewhere)
        os.utime(elsewhere / name, (10**9, 10**9))
    again = prepare(experiment, elsewhere, elsewhere / "deep" / "pack")
    assert _contents(elsewhere / "deep" / "pack") == _contents(tmp_path / "pack")
    assert again.info == pack.info
    assert str(tmp_path) not in (tmp_path / "pack" / PACK_FILE).read_text(encoding="utf-8")


def test_a_pack_that_is_there_is_opened_and_not_made_again(
    experiment: TrainConfig, pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load_parts", lambda *_: pytest.fail("it was prepared before"))
    assert prepare(experiment, tmp_path, tmp_path / "pack").info == pack.info
    # Drawn when pairs are read: no part of the pack.
    augmented = with_data(experiment, augment=AugmentConfig(emoji=1.0))
    assert prepare(augmented, tmp_path, tmp_path / "pack").info == pack.info


@pytest.mark.usefixtures("pack")
@pytest.mark.parametrize("changed", ["text", "seed", "filter", "row_tokens"])
def test_an_output_that_holds_another_pack_is_refused(experiment: TrainConfig, tmp_path: Path, changed: str) -> None:
    before = _contents(tmp_path / "pack")
    other = experiment
    if changed == "text":
        with (tmp_path / "train.tsv").open("a", encoding="utf-8") as file:
            file.write("a new\tPAIR\n")
    elif changed == "seed":
        other = experiment.model_copy(update={"seed": 7})
    elif changed == "filter":
        other = with_data(experiment, max_length_ratio=3.0)
    else:
        other = with_options(experiment, row_tokens=16)
    with pytest.raises(PackError, match=r"/pack holds a pack of other corpora or settings; use another directory$"):
        prepare(other, tmp_path, tmp_path / "pack")
    assert _contents(tmp_path / "pack") == before


def test_corpora_of_the_same_name_in_two_folders_are_two(experiment: TrainConfig, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(tmp_path / "train.tsv", tmp_path / name)
    corpora = [Corpus(path=Path(name) / "train.tsv") for name in ("one", "two")]
    config = with_data(experiment, train=corpora)
    prepare(config, tmp_path, tmp_path / "pack")
    (tmp_path / "one" / "train.tsv").write_text("another\tAUTRE\n", encoding="utf-8")
    with pytest.raises(PackError, match="other corpora"):
        prepare(config, tmp_path, tmp_path / "pack")


def test_an_output_that_holds_something_else_is_refused_before_any_work(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load_parts", lambda *_, **__: pytest.fail("hours of it"))
    with pytest.raises(PackError, match=r"exists and is not a pack; use another directory$"):
        prepare(experiment, tmp_path, tmp_path)
    with pytest.raises(PackError, match=r"train\.tsv exists and is not a pack"):
        prepare(experiment, tmp_path, tmp_path / "train.tsv")


@pytest.mark.usefixtures("pack")
@pytest.mark.parametrize(
    ("name", "damage"), [("train.ids.npy", "cut off"), ("validation.lengths.npy", "edited"), ("names.txt", "missing")]
)
def test_a_file_that_is_not_as_it_was_is_named(tmp_path: Path, name: str, damage: str) -> None:
    path = tmp_path / "pack" / name
    if damage == "missing":
        path.unlink()
    else:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) * (damage == "edited"))
    reported = "No such file or directory" if damage == "missing" else "is cut off or was changed"
    with pytest.raises(
        PackError, match=rf"/pack/{name}(:| ).*{reported}; delete .*/pack and prepare the pack again$"
    ) as e:
        load_pack(tmp_path / "pack")
    assert "\n" not in str(e.value)


@pytest.mark.usefixtures("pack")
@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"format": 1', '"format": 2', r": format: Input should be 1"),
        ('"made_of"', '"made_by"', r": made_of: Field required"),
        ('"names.txt"', '"other.txt"', " was changed"),
        ('"pairs": 515', '"pairs": 514', " was changed"),
        ("{", "", r": Invalid JSON"),
        ('"repeat": 1.0,\n      "pairs"', '"repeat": 3.0,\n      "pairs"', " was changed"),
        ('"seed": 1', '"seed": 2', " was changed"),
    ],
)
def test_an_edited_description_is_refused_by_field(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "pack" / PACK_FILE
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PackError, match=rf"/pack/pack\.json{problem}.*; delete .*/pack and prepare the pack again$"):
        load_pack(tmp_path / "pack")


def test_packs_of_equal_files_and_other_weights_are_two(experiment: TrainConfig, pack: Pack, tmp_path: Path) -> None:
    heavier = [corpus.model_copy(update={"repeat": 1.25}) for corpus in experiment.data.train]
    other = prepare(with_data(experiment, train=heavier), tmp_path, tmp_path / "other")
    assert other.info.sha256 == pack.info.sha256
    assert other.info.own_sha256 != pack.info.own_sha256


def test_what_is_no_pack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"/pack\.json: No such file or directory; "):
        load_pack(tmp_path)


def test_a_pack_of_another_vocabulary_or_of_other_directions_is_refused(experiment: TrainConfig, pack: Pack) -> None:
    check_pack(pack, experiment)
    larger = experiment.model.model_copy(update={"vocab_size": 400})
    with pytest.raises(PackError, match=r"^model\.vocab_size: 400, but the pack has 300 pieces; prepare a pack with"):
        check_pack(pack, experiment.model_copy(update={"model": larger}))
    problem = r"^data\.train: the experiment is for en-fr, fr-en, the pack for en-fr; prepare a pack"
    with pytest.raises(PackError, match=problem):
        check_pack(pack, _both_ways(experiment))


def test_start_from_needs_the_tokenizer_of_the_pack(
    experiment: TrainConfig, pack: Pack, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    same = _save_checkpoint(tmp_path / "same", experiment, pack.tokenizer)
    check_pack(pack, experiment.model_copy(update={"start_from": same}))
    other = _save_checkpoint(tmp_path / "other", experiment, tokenizer)
    with pytest.raises(PackError, match=r"^start_from: .*/other has another tokenizer than the pack; prepare a pack"):
        check_pack(pack, experiment.model_copy(update={"start_from": other}))


def test_start_from_gives_a_pack_its_tokenizer(experiment: TrainConfig, pack: Pack, tmp_path: Path) -> None:
    start = _save_checkpoint(tmp_path / "start", experiment, pack.tokenizer)
    with (tmp_path / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("zebra quagga\tQUAGGA\n" * 20)
    config = experiment.model_copy(update={"start_from": start})
    assert prepare(config, tmp_path, tmp_path / "next").tokenizer.files == pack.tokenizer.files
    assert prepare(experiment, tmp_path, tmp_path / "anew").tokenizer.files != pack.tokenizer.files


def test_directions_that_a_tokenizer_or_a_validation_lacks_are_refused(
    experiment: TrainConfig, pack: Pack, tmp_path: Path
) -> None:
    start = _save_checkpoint(tmp_path / "start", experiment, pack.tokenizer)
    config = _both_ways(experiment).model_copy(update={"start_from": start})
    with pytest.raises(ValueError, match=r"start_from: the tokenizer of .* has no tag for en, fr"):
        prepare(config, tmp_path, tmp_path / "next")
    german = [corpus.model_copy(update={"target_language": "de"}) for corpus in experiment.data.validation]
    with pytest.raises(ValueError, match=r"data\.validation: validation\.tsv is en-de, which is not trained"):
        prepare(with_data(experiment, validation=german), tmp_path, tmp_path / "next")


def test_several_directions_are_told_apart_by_tags(experiment: TrainConfig, pack: Pack, tmp_path: Path) -> None:
    config = _both_ways(experiment)
    assert [str(direction) for direction in config.directions()] == ["en-fr", "fr-en"]
    # A tag is a piece that other words have to make room for.
    smaller = config.tokenizer.model_copy(update={"vocab_size": 302})
    both = prepare(config.model_copy(update={"tokenizer": smaller}), tmp_path, tmp_path / "both")
    firsts = sorted({int(both.train.pair(index)[0][0]) for index in range(len(both.train))})
    assert firsts == sorted(both.tokenizer.encode("", language)[0] for language in ("en", "fr"))
    assert len(set(firsts)) == 2
    assert [part.direction for part in both.info.train] == list(config.directions())
    assert pack.tokenizer.encode("cat", "fr") == pack.tokenizer.encode("cat"), "one direction needs no tag"


def test_a_pair_longer_than_a_row_is_left_out(experiment: TrainConfig, pack: Pack, tmp_path: Path) -> None:
    with (tmp_path / "train.tsv").open("a", encoding="utf-8") as file:
        file.write(f"{'red ' * 20}\t{'ROUGE ' * 20}\n")
    config = with_options(experiment, row_tokens=32)
    longer = prepare(config, tmp_path, tmp_path / "next")
    assert len(longer.train) == len(pack.train)
    with pytest.raises(ValueError, match=r"no pairs are left for train: see the filters, and optimiser\.row_tokens"):
        prepare(with_options(experiment, row_tokens=1), tmp_path, tmp_path / "short")
    assert not list(tmp_path.glob("short*")), "it leaves no half of a pack"


def test_corpora_that_are_not_there_are_named_by_their_fields(experiment: TrainConfig, tmp_path: Path) -> None:
    config = with_data(experiment, train=[*experiment.data.train, Corpus(path=Path("lost.tsv"))])
    (tmp_path / "validation.tsv").unlink()
    problems = r"data\.train\.1\.path: no file lost\.tsv in .*; data\.validation\.0\.path: no file validation\.tsv in "
    with pytest.raises(ValueError, match=problems):
        prepare(config, tmp_path, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


def test_too_large_a_vocabulary_and_too_little_text_are_reported(experiment: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("cat\tchat\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"tokenizer\.vocab_size: .*too high \(300\)"):
        prepare(experiment, tmp_path, tmp_path / "pack")
    (tmp_path / "train.tsv").write_text("a cat?\tun chat\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no pairs are left to train on"):
        prepare(experiment, tmp_path, tmp_path / "pack")


@pytest.mark.parametrize("killed_at", ["_write_pairs", "find_names", "sha256_of"])
def test_an_interrupted_preparation_leaves_nothing_that_looks_whole(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    # The digests of the corpora are taken first.
    monkeypatch.setattr(module, "_made_of", lambda *_: {})
    with monkeypatch.context() as patch:
        patch.setattr(module, killed_at, die)
        with pytest.raises(KeyboardInterrupt):
            prepare(experiment, tmp_path, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()
    with pytest.raises(PackError):
        load_pack(tmp_path / "pack.partial")
    (tmp_path / "pack.partial" / "rest").write_text("of another version", encoding="utf-8")
    prepare(experiment, tmp_path, tmp_path / "pack")
    assert set(_contents(tmp_path / "pack")) == {PACK_FILE, TRAINED_FILE, *PACK_FILES}


def test_a_full_disk_is_one_line_and_leaves_nothing(experiment: TrainConfig, tmp_path: Path, disk: SmallDisk) -> None:
    disk.fill()
    with pytest.raises(PackError, match=r"/pack\.partial cannot be written: .*; free some space, and run it again$"):
        prepare(experiment, tmp_path, disk.path / "pack")
    assert [path.name for path in disk.path.iterdir()] == ["filling"]
    disk.make_room()
    assert prepare(experiment, tmp_path, disk.path / "pack").train.ids.size
