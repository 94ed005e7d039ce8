"""The training commands and a server: what was trained is served, and what is served is judged."""

from itertools import product
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from model.training import robustness_cases
from model.training.robustness_cases import Case
from service.cli.main import app
from tests.system.conftest import Server, StartServer

# English, French, German.
ADJECTIVES = [
    ("red", "rouge", "rot"),
    ("big", "grande", "gross"),
    ("small", "petite", "klein"),
    ("old", "vieille", "alt"),
]
NOUNS = [
    ("house", "maison", "haus"), ("door", "porte", "tür"), ("table", "table", "tisch"), ("cat", "chatte", "katze"),
    ("town", "ville", "stadt"), ("voice", "voix", "stimme"), ("flower", "fleur", "blume"), ("week", "semaine", "woche"),
]  # fmt: skip

EXPERIMENT = """
source_language = "en"
target_language = "fr"
[tokenizer]
vocab_size = 300
[model]
vocab_size = 300
d_model = 32
ffn_dim = 64
num_heads = 2
encoder_layers = 1
decoder_layers = 1
dropout = 0.0
max_positions = 64
[optimiser]
learning_rate = 1e-2
warmup_steps = 20
max_steps = 400
row_tokens = 32
batch_tokens = 512
label_smoothing = 0.0
average_decay = 0.9
[data]
check_language = false
[[data.train]]
path = "fr.tsv"
both_directions = true
[[data.train]]
path = "de.tsv"
target_language = "de"
[[data.validation]]
path = "valid.tsv"
"""


def _dragoman(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_each_direction_is_trained_evaluated_and_served(tmp_path: Path, start_server: StartServer) -> None:
    phrases = list(product(ADJECTIVES, NOUNS))
    french = [f"{adjective[0]} {noun[0]}\t{noun[1]} {adjective[1]}\n" for adjective, noun in phrases]
    german = [f"{adjective[0]} {noun[0]}\t{adjective[2]} {noun[2]}\n" for adjective, noun in phrases]
    for name, lines in (("fr", french[1:]), ("de", german), ("valid", french[:1])):
        (tmp_path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "x.toml").write_text(EXPERIMENT, encoding="utf-8")
    _dragoman("train", tmp_path / "x.toml", "--data", tmp_path, "--output", tmp_path / "run")
    checkpoint = tmp_path / "run" / "checkpoint"
    assert "chrF2 = 100.00" in _dragoman("evaluate", tmp_path / "de.tsv", "--model", checkpoint, "--target", "de")
    with start_server("--model", str(checkpoint)) as server:
        for source, target, text, translation in (
            ("en", "fr", "old week", "semaine vieille"),
            ("fr", "en", "semaine vieille", "old week"),
            ("en", "de", "old week", "alt woche"),
        ):
            request = {"q": text, "source": source, "target": target}
            answer = httpx.post(f"{server.url}/translate", json=request, timeout=60)
            assert answer.json() == {"translatedText": translation}
        languages = {each["code"]: each["targets"] for each in httpx.get(f"{server.url}/languages").json()}
        assert languages["en"] == ["de", "en", "fr"]
        assert "en" in languages["fr"]


def test_a_server_keeps_what_the_model_alone_loses(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {"emoji": (Case(source="I see a cat. 🦩🪁", contains=(("chat",),), verbatim=("🦩🪁",)),)}
    monkeypatch.setattr(robustness_cases, "load_cases", lambda _: cases)
    assert "| emoji | 0/1 |" in _dragoman("robustness")
    languages = ("--source", "en", "--target", "fr")
    assert "| emoji | 1/1 |" in _dragoman("robustness", "--url", server.url, *languages)
