"""Processor time of an engine's loop: parts add up, and every kind of request is measured."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loadtest.bench.engine import app
from model.tokenizer import Tokenizer
from tests.conftest import one_line
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


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ('{"glossary": {"cat": "matou"}}', "glossary"),
        ('{"target_prefix": "Le"}', "target_prefix"),
        ('{"beam_size": 7}', "--slots"),
        ('{"beam_size": 99}', "beam_size"),
        ('{"beam_size": 2, "temperature": 1}', "temperature"),
        ('{"max_new_tokens": 257}', "max_new_tokens"),
    ],
)
def test_what_would_not_be_measured_is_refused(options: str, named: str) -> None:
    result = _options("--options", options, "--slots", "6")
    assert result.exit_code == 2
    assert named in one_line(result.stderr)


def test_a_variant_that_does_not_run_here_is_refused() -> None:
    result = CliRunner().invoke(app, ["steps", "--cpu-variant", "z80"])
    assert result.exit_code == 2
    assert "for z80 do not run here" in one_line(result.stderr)


def test_a_model_of_few_positions_is_measured_to_its_end(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_model(tmp_path / "small", tokenizer, "en-fr", positions=190)
    result = _options("--options", "{}", "--model", str(tmp_path / "small"))
    assert json.loads(result.stdout)["share"] == 1


def test_a_shortlist_is_measured_beside_all_words(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_model(tmp_path / "small", tokenizer, "en-fr", positions=190, with_shortlist=True)
    result = _options("--options", "{}", "--model", str(tmp_path / "small"), "--shortlist", mode="int8")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["shortlist"] for line in lines] == [False, True]
    assert all(line["tokens_per_second"]["median"] > 0 for line in lines)


def test_a_model_without_a_shortlist_is_refused() -> None:
    result = _options("--options", "{}", "--shortlist")
    assert result.exit_code == 2
    assert "--shortlist: " in one_line(result.stderr)
