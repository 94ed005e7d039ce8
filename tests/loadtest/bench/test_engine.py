"""Processor time of an engine's loop: parts add up, and every kind of request is measured."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loadtest.bench.engine import app
from model.tokenizer import Tokenizer
from tests.system.models import write_model


def _options(*arguments: str, mode: str = "fp32") -> Result:
    command = ["options", *arguments, "--rounds", "1", "--requests", "4", "--mode", mode]
    return CliRunner().invoke(app, command)


def test_parts_make_the_whole() -> None:
    result = CliRunner().invoke(app, ["steps", "--in-flight", "2", "--rounds", "1", "--batches", "1"])
    assert result.exit_code == 0, result.output
    parts = json.loads(result.stdout)
    assert parts.pop("tokens per report") >= 1
    whole = parts.pop("all")
    assert set(parts) == {"encoder", "decoder", "schedule", "update", "report", "rows, batches, choices"}
    assert all(part > 0 for part in parts.values())
    assert sum(parts.values()) == pytest.approx(whole, rel=0.01)


def test_each_kind_of_request_gets_a_speed() -> None:
    kinds = ['{"temperature": 1, "top_p": 0.9}', '{"beam_size": 3, "hypotheses": true}', '{"max_new_tokens": 2}']
    asked = [argument for kind in kinds for argument in ("--options", kind)]
    result = _options(*asked, "--slots", "6")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["options"] for line in lines] == [json.loads(kind) for kind in kinds]
    assert all(line["tokens_per_second"]["median"] > 0 for line in lines)
    assert lines[0]["share"] == 1


def test_a_shortlist_is_measured_beside_all_words(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_model(tmp_path / "small", tokenizer, "en-fr", positions=190, with_shortlist=True)
    result = _options("--options", "{}", "--model", str(tmp_path / "small"), "--shortlist", mode="int8")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["shortlist"] for line in lines] == [False, True]
    assert all(line["tokens_per_second"]["median"] > 0 for line in lines)
