"""Processor time of translations, of the HTTP process and of the engines."""

import json

import pytest
import typer
from typer.testing import CliRunner

from loadtest.costs import main


@pytest.mark.slow
def test_costs_add_up() -> None:
    app = typer.Typer()
    app.command()(main)
    asked = ["--requests", "60", "--in-flight", "8", "--options", '{"beam_size": 2}', "--", "--replicas", "1"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    seen = json.loads(result.stdout)
    assert seen["generated_tokens"] > 60
    both = seen["http_core_seconds"] + seen["engine_core_seconds"]
    assert seen["core_seconds_per_million_characters"] == pytest.approx(1e6 * both / seen["characters"], rel=0.2)
