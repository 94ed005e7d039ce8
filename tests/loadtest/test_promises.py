"""The checks at size, at a small size; and that they notice what is wrong."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from loadtest import local_server, promises
from loadtest.promises import app
from loadtest.sentences import SENTENCES

FLAGS = ["--", "--replicas", "1"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.tsv"
    path.write_text("".join(f"{sentence}\tune phrase\n" for sentence in SENTENCES * 10), encoding="utf-8")
    return path


def test_independence(file: Path) -> None:
    result = CliRunner().invoke(app, ["independence", str(file), "--count", "12", *FLAGS])
    assert result.exit_code == 0, result.output
    assert "12 of 12 with the same log-probabilities, bit for bit" in result.output


def test_a_difference_is_noticed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    async def stream(client: httpx.AsyncClient, text: str, body: dict[str, Any]) -> local_server.Said:
        nonlocal calls
        calls += 1
        is_wrong = calls == 15
        said = await local_server.stream(client, text, body)
        return said._replace(logprobs=(*said.logprobs, 0.0)) if is_wrong else said

    monkeypatch.setattr(promises, "stream", stream)
    result = CliRunner().invoke(app, ["independence", str(file), "--count", "12", *FLAGS])
    assert result.exit_code == 1
    assert "11 of 12 with the same log-probabilities" in result.output
    assert "12 of 12 texts as alone" in result.output


def test_survival(file: Path) -> None:
    command = ["survival", str(file), "--streams", "8", "--seconds", "0.02", *FLAGS, "--slots", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "8 of 8 streams" in result.output


def test_memory(file: Path) -> None:
    result = CliRunner().invoke(app, ["memory", str(file), "--requests", "50", "--sentences", "20", *FLAGS])
    assert result.exit_code == 0, result.output
    assert "growth after the first tenth" in result.output


def test_the_oracle(file: Path) -> None:
    command = ["oracle", str(file), "--count", "5", "--beam-size", "2", *FLAGS, "--mode", "fp32"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "5 of 5 texts are the oracle's" in result.output


def test_too_few_sentences_are_named(file: Path) -> None:
    result = CliRunner().invoke(app, ["independence", str(file), "--count", "100000"])
    assert result.exit_code == 2
    assert "100000 are needed" in result.output
