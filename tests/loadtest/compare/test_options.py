"""What options cost is measured with every kind of request."""

import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner, Result

from loadtest.compare.options import main
from model.tokenizer import Tokenizer
from tests.system.models import write_model


def _run(*arguments: str) -> Result:
    app = Typer()
    app.command()(main)
    return CliRunner().invoke(app, [*arguments, "--rounds", "1", "--requests", "4", "--mode", "fp32"])


def test_each_kind_of_request_gets_a_speed() -> None:
    kinds = ['{"temperature": 1, "top_p": 0.9}', '{"beam_size": 3, "hypotheses": true}', '{"max_new_tokens": 2}']
    asked = [argument for kind in kinds for argument in ("--options", kind)]
    result = _run(*asked, "--slots", "6")
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
    result = _run("--options", options, "--slots", "6")
    assert result.exit_code == 2
    assert named in result.stderr


def test_a_model_of_few_positions_is_measured_to_its_end(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_model(tmp_path / "small", tokenizer, "en-fr", positions=190)
    result = _run("--options", "{}", "--model", str(tmp_path / "small"))
    assert json.loads(result.stdout)["share"] == 1
