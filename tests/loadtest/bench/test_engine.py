"""Processor time of an engine's loop: every kind of request is measured."""

import json
from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from loadtest.bench.engine import main
from model.tokenizer import Tokenizer
from tests.system.models import write_model


def _options(*arguments: str, mode: str = "fp32") -> Result:
    app = typer.Typer()
    app.command()(main)
    return CliRunner().invoke(app, [*arguments, "--rounds", "1", "--requests", "4", "--mode", mode])


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
