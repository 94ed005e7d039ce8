"""`dragoman adapt` as a user calls it: from a TMX to a checkpoint that names its parent, and one line for a mistake."""

import csv
import json
import os
import re
import signal
from collections import Counter
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece
import torch
from typer.testing import CliRunner

from model.checkpoint import load_model, save_checkpoint
from model.checkpoint_config import CheckpointConfig, Direction, load_config
from model.config import ModelConfig
from model.tokenizer import TRAINED_FILE, Tokenizer
from model.training.adapt import OPTIMISER, shipped_pairs, write_whole
from model.training.comparison import Comparison, comparison_page
from model.training.corpora import Pair
from model.training.evaluate import Evaluation
from model.training.scores import Score
from model.training.state import TrainingError
from model.training.trainer import Trainer
from service.cli.main import app
from tests.conftest import WORDS, random_model
from tests.disks import SmallDisk

PAIRS = [(f"{a} {b} {c}", f"{c} {a}") for a in WORDS[:10] for b in WORDS[10:20] for c in WORDS[:4]]


@pytest.fixture
def parent(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    """A model as Firefox's are after their import: numbers of its own for pieces, a bias, a recurrent decoder."""
    own = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.files[TRAINED_FILE])
    vocabulary = ["</s>", "<unk>", *map(own.id_to_piece, range(4, 320))]
    renumbered = Tokenizer({**tokenizer.files, "vocabulary.json": json.dumps(vocabulary).encode()})
    ids = {"pad_id": 1, "bos_id": 318, "eos_id": 0, "projection_bias": True}
    kinds = {"norm_order": "post", "positions": "table", "decoder_memory": "ssru", "activation": "swish"}
    shape = {"d_model": 32, "ffn_dim": 64, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig.model_validate({"vocab_size": 319, **shape, **kinds, **ids})
    described = CheckpointConfig(
        directions=(Direction(source="en", target="fr"),), model=config, max_sentence_tokens=48
    )
    save_checkpoint(tmp_path / "parent", described, random_model(config).state_dict(), renumbered, torch.int8)
    return tmp_path / "parent"


def _tmx(path: Path, pairs: list[tuple[str, str]], languages: tuple[str, str] = ("fr-CA", "EN")) -> Path:
    units = "".join(
        f'<tu><tuv xml:lang="{languages[0]}"><seg>{target}</seg></tuv>'
        f'<tuv xml:lang="{languages[1]}"><seg>{source}</seg></tuv></tu>'
        for source, target in pairs
    )
    path.write_text(f'<tmx version="1.4"><header/><body>{units}</body></tmx>', encoding="utf-8")
    return path


def _run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["adapt", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_a_model_learns_from_a_memory(parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped by SIGTERM first; the same command goes on, and keeps the same tenth back."""
    quick = {"learning_rate": 5e-3, "warmup_steps": 2, "max_steps": 40, "validate_every": 20}
    monkeypatch.setattr("model.training.adapt.OPTIMISER", OPTIMISER | quick)
    texts = _tmx(tmp_path / "shop.tmx", [*PAIRS, PAIRS[0], ("the same", "the same")])
    general = _tmx(tmp_path / "general.tmx", [(f"{a} on {b}", f"{b} sur {a}") for a in WORDS[:5] for b in WORDS[5:10]])
    data = _tmx(tmp_path / "data.tmx", [PAIRS[7], ("a cat of", "un chat de"), ("a dog of", "un chien de")])
    page, output = tmp_path / "report.html", tmp_path / "run"
    command = (parent, "--texts", texts, "--general", general, "--data", data, "--output", output, "--report", page)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        code, printed, _ = _run(*command)
    assert (code, printed.splitlines()[-1]) == (0, "stopped; the same command goes on")
    assert not page.exists()
    kept = {path.name: path.read_text() for path in (output / "texts").iterdir()}

    code, printed, _ = _run(*command)
    assert code == 0
    assert printed.startswith("400 units\n")
    assert "1 left out: not translated: equal in all languages" in printed
    assert "1 left out: a source once more" in printed
    assert re.search(r"your texts, 40 units kept back +│ BLEU +│ \d+\.\d +│ \d+\.\d", printed)
    assert "general text, 2 units" in printed
    assert "test data, 3 units" in printed
    [learned] = (text for name, text in kept.items() if name.startswith("learned"))
    assert PAIRS[7][0] not in learned
    assert kept == {path.name: path.read_text() for path in (output / "texts").iterdir()}
    config, before = load_config(output / "checkpoint"), load_config(parent)
    assert config.origin is not None
    assert (config.origin.name, config.origin.sha256) == ("adapted from parent", before.sha256)
    assert (config.max_sentence_tokens, config.directions) == (48, before.directions)
    assert load_model(output / "checkpoint").stored_scales.keys() == load_model(parent).stored_scales.keys()
    with (output / "log.csv").open(newline="") as log:
        losses = [float(row["validation_loss"]) for row in csv.DictReader(log) if row["validation_loss"]]
    assert min(losses) < losses[0] - 0.1, "the first is the parent's"
    assert page.read_text().count("<tr>") == 3 * 6 + 30 + 2 + 3


def test_the_old_model_translates_general_text_that_has_no_translation(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    general = [Pair("a cat", ""), Pair("a dog", "le chien"), Pair("the table", "la table"), Pair("endless", "")]
    monkeypatch.setattr("model.training.adapt.shipped_pairs", lambda direction: general)

    def translate(_: object, sources: list[str], *options: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(text=f"old  {source}", ended=source != "endless") for source in sources]

    monkeypatch.setattr("model.training.adapt.translate_with_progress", translate)
    monkeypatch.setattr(Trainer, "train_step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    code, _, _ = _run(parent, "--texts", _tmx(tmp_path / "shop.tmx", PAIRS), "--output", tmp_path / "run")
    assert code == 0
    [replayed] = (tmp_path / "run" / "texts").glob("replayed-*")
    assert sorted(replayed.read_text().splitlines()) == ["a cat\told a cat", "the table\tla table"]  # no dog: held back


@pytest.mark.parametrize(
    ("pairs", "languages", "message"),
    [
        (PAIRS[:199], ("fr", "en"), "199 units are left, and 200 are needed"),
        (PAIRS, ("de", "en"), "shop.tmx: no units from en into fr"),
        ([("<broken", "")], ("fr", "en"), "shop.tmx: the XML in it is broken: "),
        ([(PAIRS[0][0], "mot " * 61)] * 300, ("fr", "en"), "0 units are left"),
        ([(f"{source} {'/a' * 400}", target) for source, target in PAIRS], ("fr", "en"), "0 units are left"),
    ],
)
def test_mistakes_get_one_line(
    parent: Path, tmp_path: Path, pairs: list[tuple[str, str]], languages: tuple[str, str], message: str
) -> None:
    texts = _tmx(tmp_path / "shop.tmx", pairs, languages)
    code, _, errors = _run(parent, "--texts", texts, "--output", tmp_path / "run")
    assert code == 2
    [line] = [line for line in errors.splitlines() if line.startswith("dragoman: ")]
    assert message in line


def test_a_file_is_written_whole_or_stays(disk: SmallDisk) -> None:
    page = disk.path / "page.html"
    write_whole(page, ["old"])
    disk.fill()
    with pytest.raises(TrainingError, match=r"/page\.html cannot be written: No space left on device; free some space"):
        write_whole(page, ["new" * 2_000])
    assert page.read_text() == "old"
    assert {path.name for path in disk.path.iterdir()} == {"page.html", "filling"}


def test_a_model_without_a_tokenizer_for_its_target_is_refused(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.training.adapt._MOST_PIECES", 0.0)
    monkeypatch.setattr("model.training.adapt.shipped_pairs", lambda direction: [])
    texts = _tmx(tmp_path / "shop.tmx", PAIRS)
    code, _, errors = _run(parent, "--texts", texts, "--output", tmp_path / "run")
    assert code == 2
    assert "has no tokenizer for fr" in errors


def test_a_model_that_cannot_be_trained_is_refused(parent: Path, tmp_path: Path) -> None:
    described = json.loads((parent / "config.json").read_text())
    described["model"]["positions"] = "relative"
    (parent / "config.json").write_text(json.dumps(described))
    texts = _tmx(tmp_path / "shop.tmx", PAIRS)
    code, _, errors = _run(parent, "--texts", texts, "--output", tmp_path / "run")
    assert code == 2
    assert "cannot be trained here: model.positions: relative positions cannot be trained, only imported" in errors


def test_the_page_escapes_what_it_shows() -> None:
    pairs = [Pair("<script>alert(1)</script>", '"a" & b')]
    score, nothing = Score(1.0, "", ""), Counter[str]()
    found = [Evaluation(score, score, nothing, nothing, [text], 1.0, 1) for text in ("<b>", '"a" & b')]
    comparison = Comparison(pairs, found[0], found[1], frozenset({"a", "c"}))
    assert comparison.figures()[-2:] == [("exact matches", "0", "1"), ("your own words, of 1", "0", "1")]
    page = comparison_page({"<i>": comparison}, Direction(source="en", target="fr"))
    assert not {"<script", "<b>", "<i>"} & {*re.findall("<(?:script|b>|i>)", page)}
    assert [*pairs[0], "<b>", pairs[0].target] == [*map(unescape, re.findall("<td[^>]*>(.*?)</td>", page))][-4:]


def test_general_text_is_shipped_for_two_languages() -> None:
    directions = ("en", "fr"), ("fr", "en"), ("fr", "pt")
    english, french, other = (shipped_pairs(Direction(source=source, target=target)) for source, target in directions)
    assert Pair("The mat is wet.", "Le tapis est mouillé.") in english
    assert [pair[::-1] for pair in french] == english
    assert {*other} == {Pair(source, "") for source, _ in french}
    assert not shipped_pairs(Direction(source="pt", target="en"))
