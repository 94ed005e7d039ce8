"""The check of repeated strings, at a small size."""

import json

import pytest
from typer.testing import CliRunner

from loadtest import repeats
from loadtest.promises import app
from loadtest.repeats import Timed, Work


def _work(seconds: float, answer: str = "{}", *events: str) -> Work:
    timed = {name: Timed(seconds, 2 * seconds, 10 * seconds, [answer]) for name in ("strings", "strings_again", "page")}
    return Work(timed, [*events], {"hits": 1.0})


def test_ratios_are_medians_and_what_differs_is_counted() -> None:
    without = _work(6.0, "{}", "a", "b")
    pairs = [[without, _work(seconds, "{}", "a", "b")] for seconds in (3.0, 2.0, 1.0)]
    figures = repeats._figures(pairs)
    assert figures["page"] == {
        "seconds_without": 6.0,
        "seconds_with": 2.0,
        "ratio": 3.0,
        "core_ratio": 3.0,
        "tokens_without": 60.0,
        "tokens_with": 20.0,
    }
    assert (figures["compared"], figures["different"], figures["cache"]) == (5, 0, {"hits": 1.0})
    assert repeats._figures([[without, _work(3.0, "{}", "a")]])["different"] == 1
    assert repeats._figures([[without, _work(3.0, "{}", "a", "c")]])["different"] == 1
    assert repeats._figures([[without, _work(3.0, "{ }", "a", "b")]])["different"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(("differs", "status"), [(False, 0), (True, 1)])
def test_servers_with_and_without_the_cache_answer_alike(
    differs: bool, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if differs:
        monkeypatch.setattr("loadtest.repeats._TELLS", ("token", "segment", "done"))  # which has times
    result = CliRunner().invoke(
        app, ["repeats", "--strings", "60", "--clients", "4", "--rounds", "1", "--", "--replicas", "1"]
    )
    assert result.exit_code == status, result.output
    figures = json.loads(result.stdout)
    assert (figures["different"] > 0) == differs
    assert figures["compared"] > 60
    assert figures["cache"]["hits"] > 0
    assert figures["cache"]["joined"] > 0
