"""Shared by all tests: small random models and a small real tokenizer."""

import re
import shutil
import ssl
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest
import torch

from model import kernels
from model.checkpoint_config import load_config
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from model.training.config import TokenizerConfig
from model.training.data import train_tokenizer
from model.transformer import Transformer
from service.process.hardware import usable_cores
from tests.disks import SmallDisk, small_disk

# Models this small gain nothing from threads that wait for one another, least of all beside other test processes.
torch.set_num_threads(1)

# Each client of HTTP reads all certificates of the machine, which takes 20 ms; no test needs one.
vars(ssl)["create_default_context"] = cache(ssl.create_default_context)

# A busy machine takes long for an example that takes nothing.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

_MOST_WORKERS = 6

WORDS = "the a cat dog sat ate on mat under table red big small house and ran le la chat chien mangé sur tapis".split()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--download", action="store_true", help="also what needs a public model from the network")
    parser.addoption("--slow", action="store_true", help="also tests marked slow, as .ci/run does")
    parser.addoption("--device", default="cpu", help="where the model's tests compute: cpu, cuda, ...")


def pytest_xdist_auto_num_workers() -> int:
    """Return the number of test processes: three are often waiting for a server to start or to end."""
    return min(usable_cores() + 3, _MOST_WORKERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow: only with --slow"))


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.config.getoption("--device"))


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(
        vocab_size=97, d_model=32, ffn_dim=64, num_heads=4, encoder_layers=2, decoder_layers=2, max_positions=48
    )


@pytest.fixture
def model(config: ModelConfig, device: torch.device) -> Transformer:
    return random_model(config).to(device)


@pytest.fixture
def operators() -> None:
    """Skips where there is no compiler at all; one that is there must be able to build them."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler: the operators cannot be built here")
    assert kernels.load()


def random_model(config: ModelConfig, seed: int = 0) -> Transformer:
    """Random weights whose outputs depend on the source: layers loud enough to drown the tied embedding."""
    torch.manual_seed(seed)
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.25 * torch.randn_like(parameter))
        model.embedding.weight.mul_(0.3)
    return model


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A real SentencePiece model with byte fallback and without case marks, trained in a moment."""
    return _small_tokenizer(TokenizerConfig(vocab_size=320, case_marks=False, split_digits=False))


@pytest.fixture(scope="session")
def case_marked_tokenizer() -> Tokenizer:
    """The same with case marks, which are the default of the trainer."""
    return _small_tokenizer(TokenizerConfig(vocab_size=320))


def _small_tokenizer(options: TokenizerConfig) -> Tokenizer:
    sentences = [f"{first} {second} {third}" for first in WORDS for second in WORDS for third in WORDS[::3]]
    both_sides = [side for sentence in sentences for side in (sentence, sentence[::-1].title())]
    return train_tokenizer(both_sides, options, seed=0)


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system does not know this user, and no variable names a directory."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path) as mounted:
        yield mounted


def one_line(output: str) -> str:
    """Join what a command printed, whatever the width of the terminal: without boxes and line breaks."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", output).split())


def forget_sums(checkpoint: Path) -> None:
    """Remove the sums, as checkpoints were before they had any: then other files may take the place of theirs."""
    described = load_config(checkpoint).model_dump_json(exclude={"sha256"})
    (checkpoint / "config.json").write_text(described, encoding="utf-8")
