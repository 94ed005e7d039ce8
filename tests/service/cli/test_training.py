"""The training commands as a user calls them: what they print, and one line for each mistake."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from model.checkpoint import save_checkpoint
from model.checkpoint_config import CheckpointConfig, Direction
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from service.cli.main import app
from tests.conftest import WORDS, random_model

EXPERIMENT = """
source_language = "en"
target_language = "fr"
[data]
check_content = false
[tokenizer]
vocab_size = 300
[model]
vocab_size = 300
d_model = 16
ffn_dim = 16
num_heads = 2
encoder_layers = 1
decoder_layers = 1
[optimiser]
schedule = "flat"
row_tokens = 16
batch_tokens = 64
[[data.train]]
path = "train.tsv"
[[data.validation]]
path = "train.tsv"
max_pairs = 20
"""


@pytest.fixture
def checkpoint(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    config = ModelConfig(vocab_size=320, d_model=32, ffn_dim=64, num_heads=2, encoder_layers=1, decoder_layers=1)
    manifest = CheckpointConfig(directions=(Direction(source="en", target="fr"),), model=config)
    save_checkpoint(tmp_path / "checkpoint", manifest, random_model(config).state_dict(), tokenizer, torch.float32)
    return tmp_path / "checkpoint"


def _run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_evaluate(checkpoint: Path, tmp_path: Path) -> None:
    test, hypotheses = tmp_path / "test.tsv", tmp_path / "hypotheses"
    test.write_text("the cat\tle chat\na dog\tun chien\n", encoding="utf-8")
    code, output, _ = _run("evaluate", test, "--model", checkpoint, "--beam-size", 2, "--hypotheses", hypotheses)
    assert code == 0
    bleu, chrf, signs, speed = output.splitlines()
    assert bleu.startswith("BLEU = ")
    assert chrf.startswith("chrF2 = ")
    assert signs.startswith("Signs of bad translations (of the references): ")
    assert speed.endswith("tokens/s")
    assert len(hypotheses.read_text(encoding="utf-8").splitlines()) == 2


def test_text_is_prepared_trained_on_for_a_moment_and_decayed(tmp_path: Path) -> None:
    """The pack alone is needed after `prepare`."""
    lines = [f"{a} {b}\t{b}\n" for a in WORDS for b in WORDS]
    data, config = tmp_path / "data", tmp_path / "small.toml"
    data.mkdir()
    (data / "train.tsv").write_text("".join(lines), encoding="utf-8")
    config.write_text(EXPERIMENT, encoding="utf-8")
    code, output, _ = _run("prepare", config, "--data", data, "--output", tmp_path / "pack")
    assert code == 0
    assert re.fullmatch(rf"{tmp_path}/pack: \d+ pairs, 0\.0 million tokens\n", output)
    shutil.rmtree(data)
    run = ["train", config, "--data", tmp_path / "pack", "--output", tmp_path / "run", "--workers", 0]
    code, output, _ = _run(*run, "--minutes", 0.01)
    assert (code, output) == (0, f"checkpoint: {tmp_path}/run/checkpoint\n")
    before = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    code, *_ = _run(*run, "--decay-now", "--minutes", 0.01)
    after = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    assert code == 0
    assert before["decay"] is None
    assert after["decay"]["seconds"] == 0.6
    assert after["progress"]["step"] > before["progress"]["step"]


def test_robustness(checkpoint: Path) -> None:
    code, output, _ = _run("robustness", "--model", checkpoint)
    assert code == 0
    assert "| web addresses | 0/14 |" in output, "random weights know no address"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "missing.tsv"], "missing.tsv: No such file or directory"),
        (["evaluate", "{tmp}/empty.tsv"], "empty.tsv is empty"),
        (["evaluate", "{tmp}/good.tsv", "--device", "gpu"], "device: gpu is not one; use cpu, cuda, cuda:1, ..."),
        (["evaluate", "{tmp}/good.tsv", "--target", "de"], "languages ?-de: the model translates en-fr"),
        (["robustness", "--source", "de"], "languages de-?: the model translates en-fr"),
        (["robustness", "--url", "http://127.0.0.1:9", "--source", "en"], "--url needs --source and --target, too"),
        (["robustness", "--url", "127.0.0.1:9", "--source", "en", "--target", "fr"], "127.0.0.1:9"),
        (["train", "{tmp}/wrong.toml", "--data", "{tmp}", "--output", "{tmp}/run"], "wrong.toml: data.train: Field"),
        (["train", "{tmp}/broken.toml", "--data", "{tmp}", "--output", "{tmp}/run"], "broken.toml: "),
        (["train", "{tmp}/good.toml", "--data", "{tmp}", "--output", "{tmp}/run"], "train.tsv:2: expected two non-em"),
        (["prepare", "{tmp}/wrong.toml", "--data", "{tmp}", "--output", "{tmp}/pack"], "wrong.toml: data.train: Field"),
        (["prepare", "{tmp}/good.toml", "--data", "{tmp}", "--output", "{tmp}/pack"], "train.tsv:2: expected two"),
        (["prepare", "{tmp}/lost.toml", "--data", "{tmp}", "--output", "{tmp}/pack"], "data.train.0.path: no file los"),
        (["prepare", "{tmp}/good.toml", "--data", "{tmp}", "--output", "{tmp}"], "exists and is not a pack; use"),
        (
            ["train", "{tmp}/good.toml", "--data", "{tmp}", "--output", "{tmp}/run", "--decay-now"],
            "run/state.pt is not there: only a run that has begun can decay",
        ),
        (["distill", "{tmp}/good.toml", "--teacher", "{tmp}", "--data", "{tmp}", "--output", "{tmp}/d"], "not a ch"),
    ],
)  # fmt: skip
def test_mistakes_get_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "empty.tsv").touch()
    (tmp_path / "train.tsv").write_text("a\tb\nno tab\n")
    (tmp_path / "good.tsv").write_text("a\tb\n")
    (tmp_path / "good.toml").write_text(EXPERIMENT)
    (tmp_path / "wrong.toml").write_text(EXPERIMENT.replace("data.train", "data.training"))
    (tmp_path / "lost.toml").write_text(EXPERIMENT.replace('path = "train.tsv"', 'path = "lost.tsv"', 1))
    (tmp_path / "broken.toml").write_text("source_language = ")
    code, _, errors = _run(*(argument.format(tmp=tmp_path) for argument in arguments))
    assert code == 2
    [line] = [line for line in errors.splitlines() if line.startswith("dragoman: ")]
    assert message in line
    assert "Traceback" not in errors
