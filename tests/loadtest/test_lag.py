"""A beam's lag behind a greedy stream, at a small size."""

import json
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from loadtest import lag

STEPS = [
    ("start", {}),
    ("hypotheses", {"step": 1}),
    ("hypotheses", {"step": 2}),
    ("token", {"index": 0, "text": "a"}),
    ("hypotheses", {"step": 3}),
    ("token", {"index": 1, "text": "b"}),
    ("token", {"index": 2, "text": "c"}),
    ("segment", {}),
    ("hypotheses", {"step": 1}),
    ("token", {"index": 0, "text": "d"}),
    ("hypotheses", {"step": 2}),
    ("segment", {}),
    ("done", {}),
]


async def test_steps_are_counted_in_each_sentence() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in STEPS)
        return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})

    async with httpx.AsyncClient(base_url="http://server", transport=httpx.MockTransport(answer)) as client:
        heard = await lag._stream(client, "A sentence.", {})
    # Those that come with the end come with the step after the last that was told.
    assert heard.steps_behind == [1, 2, 1, 0]
    assert heard.at_the_end == 2
    assert len(heard.token_seconds) == 4


@pytest.mark.timeout(120)
def test_a_beam_is_never_ahead(tmp_path: Path) -> None:
    file = tmp_path / "sentences"
    file.write_text("Where is the station?\nThe cat sat on the mat.\nI have lost my key, and he found it.\n")
    app = typer.Typer()
    app.command()(lag.main)
    result = CliRunner().invoke(app, [str(file), "--count", "3"])
    assert result.exit_code == 0, result.output
    [line] = [each for each in result.output.splitlines() if each.startswith("steps behind")]
    assert float(line.split()[6].rstrip(",")) >= 0
