"""What a translation costs, for a few of them."""

import json

import typer
from typer.testing import CliRunner

from loadtest.checks import costs


def test_costs() -> None:
    app = typer.Typer()
    app.command()(costs.main)
    result = CliRunner().invoke(app, ["--requests", "60", "--in-flight", "8", "--", "--replicas", "1"])
    assert result.exit_code == 0, result.output
    seen = json.loads(result.stdout)
    assert seen["generated_tokens"] > 60
    assert seen["characters"] > 60 * len("It is raining.")
    assert 0 < seen["tokens_per_core_second"] < seen["tokens_per_engine_core_second"]
    both = seen["http_core_seconds"] + seen["engine_core_seconds"]
    assert seen["core_seconds_per_million_characters"] == round(1e6 * both / seen["characters"], 1)
