"""What options cost is measured with every kind of request."""

import json

from typer import Typer
from typer.testing import CliRunner

from loadtest.options import main


def test_each_kind_of_request_gets_a_speed() -> None:
    app = Typer()
    app.command()(main)
    kinds = ['{"temperature": 1, "top_p": 0.9}', '{"beam_size": 3}']
    asked = [argument for kind in kinds for argument in ("--options", kind)]
    arguments = [*asked, "--rounds", "1", "--requests", "4", "--slots", "6", "--mode", "fp32"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["options"] for line in lines] == [json.loads(kind) for kind in kinds]
    assert all(line["tokens_per_second"]["median"] > 0 for line in lines)
    assert lines[0]["share"] == 1
