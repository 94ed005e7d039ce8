"""The limits at a small size; and that what breaks a promise ends the command with 1."""

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from loadtest import limits
from loadtest.local_server import Server
from loadtest.promises import app
from loadtest.soak.wire import Answer

pytestmark = pytest.mark.slow


def _run(*options: str, slots: int = 64) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, [*options, "--", "--replicas", "1", "--slots", str(slots)])
    return result.exit_code, json.loads(result.stdout)


def _overload(*limits: str) -> tuple[int, dict[str, Any]]:
    return _run("overload", "--seconds", "4", "--sentences", "5", "--max-waiting", "16", *limits)


def test_overload() -> None:
    status, seen = _overload("--least-share", "0", "--refused-within-ms", "100000")
    assert seen["problems"] == []
    assert status == 0
    assert set(seen["outcomes"]) == {"ok", "queue_full"}
    assert seen["goodput_per_second"] > 0
    assert seen["offered_per_second"] == pytest.approx(10 * seen["peak_per_second"], rel=0.01)
    assert seen["refused_milliseconds"]["median"] <= seen["refused_milliseconds"]["p99"]


def test_little_goodput_and_slow_refusals_break_a_promise() -> None:
    status, seen = _overload("--least-share", "99", "--refused-within-ms", "0")
    assert status == 1
    assert ["goodput" in seen["problems"][0], "refusal" in seen["problems"][1]] == [True, True]
    assert len(seen["problems"]) == 2


def test_drain() -> None:
    status, seen = _run("drain", "--streams", "20", "--sentences", "12", slots=1)
    assert status == 0
    assert seen["outcomes"] == {"ok": 20}
    assert seen["same_text_as_alone"] == 20
    assert seen["later_request"] == 503
    assert seen["streams_at_sigterm"] >= 18
    assert seen["sentences_at_work_at_sigterm"] > 0


def test_a_drain_with_nothing_to_drain_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    real = limits._at_work

    async def at_work(server: Server) -> int:
        while await real(server):  # noqa: ASYNC110  the server is another process
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)  # for the clients to hear the last of it
        return 0

    monkeypatch.setattr(limits, "_at_work", at_work)
    status, seen = _run("drain", "--streams", "3", "--sentences", "1")
    assert seen["same_text_as_alone"] == 3
    assert (seen["later_request"], seen["exit_status"]) == (503, 0)
    assert seen["streams_at_sigterm"] == 0
    assert status == 1


def test_a_stream_that_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = limits._drained

    async def drained(*arguments: Any) -> Any:
        answers, *rest = await real(*arguments)
        return [Answer(0, {}, b""), *answers[1:]], *rest

    monkeypatch.setattr(limits, "_drained", drained)
    status, seen = _run("drain", "--streams", "3", "--sentences", "80", slots=1)
    assert status == 1
    assert seen["streams_at_sigterm"] == 3
    assert seen["outcomes"] == {"ok": 2, "cut": 1}
    assert seen["same_text_as_alone"] == 2


def test_costs() -> None:
    status, seen = _run("costs", "--requests", "60", "--in-flight", "8")
    assert status == 0
    assert seen["generated_tokens"] > 60
    assert seen["characters"] > 60 * len("It is raining.")
    assert 0 < seen["tokens_per_core_second"] < seen["tokens_per_engine_core_second"]
    both = seen["http_core_seconds"] + seen["engine_core_seconds"]
    assert seen["core_seconds_per_million_characters"] == round(1e6 * both / seen["characters"], 1)
