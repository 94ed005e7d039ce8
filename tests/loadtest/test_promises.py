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


@pytest.mark.slow
def test_independence(file: Path) -> None:
    result = CliRunner().invoke(app, ["independence", str(file), "--count", "12", *FLAGS])
    assert result.exit_code == 0, result.output
    assert "12 of 12 with the same log-probabilities, bit for bit" in result.output


@pytest.mark.slow
def test_a_difference_is_noticed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    async def stream(client: httpx.AsyncClient, text: str, body: dict[str, Any]) -> local_server.StreamedTranslation:
        nonlocal calls
        calls += 1
        is_wrong = calls == 15
        translation = await local_server.stream(client, text, body)
        return translation._replace(logprobs=(*translation.logprobs, 0.0)) if is_wrong else translation

    monkeypatch.setattr(promises, "stream", stream)
    result = CliRunner().invoke(app, ["independence", str(file), "--count", "12", *FLAGS])
    assert result.exit_code == 1
    assert "11 of 12 with the same log-probabilities" in result.output
    assert "12 of 12 texts as alone" in result.output


@pytest.mark.slow
def test_the_oracle(file: Path) -> None:
    command = ["oracle", str(file), "--count", "5", "--beam-size", "2", *FLAGS, "--mode", "fp32"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "5 of 5 texts are the oracle's" in result.output


@pytest.mark.slow
def test_what_is_not_the_oracle_s_is_noticed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def translate(client: httpx.AsyncClient, texts: list[str], body: dict[str, Any]) -> list[str]:
        return ["autre chose", *(await local_server.translate(client, texts, body))[1:]]

    monkeypatch.setattr(promises, "translate", translate)
    for share, status in (("1.0", 1), ("0.8", 0)):
        command = ["oracle", str(file), "--count", "5", "--at-least", share, *FLAGS, "--mode", "fp32"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == status
        assert "4 of 5 texts are the oracle's" in result.output
