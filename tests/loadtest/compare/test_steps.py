"""The profile of an engine's step adds up."""

import json

import pytest
import typer
from typer.testing import CliRunner

from loadtest.compare import steps


def test_parts_make_the_whole() -> None:
    app = typer.Typer()
    app.command()(steps.main)
    result = CliRunner().invoke(app, ["--in-flight", "2", "--rounds", "1", "--batches", "1"])
    assert result.exit_code == 0, result.output
    parts = json.loads(result.stdout)
    assert parts.pop("tokens per report") >= 1
    whole = parts.pop("all")
    assert set(parts) == {"encoder", "decoder", "schedule", "update", "report", "rows, batches, choices"}
    assert all(part > 0 for part in parts.values())
    assert sum(parts.values()) == pytest.approx(whole, rel=0.01)
