"""Supervision, with real engine processes that cannot work."""

import time

import pytest

from service.engine.process import EngineObserver, EngineProcess
from service.engine.request import EngineOptions, GenerationRequest
from service.errors import EngineFailed


@pytest.mark.parametrize(
    ("mode", "reason"), [("fp32", r"nowhere is not a checkpoint"), ("nonsense", "ended before it was ready")]
)
async def test_a_first_start_that_fails_is_told_and_not_repeated(mode: str, reason: str) -> None:
    """Whether the engine could say why, or just died."""
    options = EngineOptions(checkpoint="nowhere", mode=mode, threads=1, slots=1, max_prefill=1, max_length=8)
    engine = EngineProcess(options, EngineObserver())
    engine.start()
    started = time.monotonic()
    with pytest.raises(EngineFailed, match=reason):
        await engine.wait_until_started()
    assert time.monotonic() - started < 60
    assert not engine.ready
    await engine.stop()


async def test_stopping_ends_what_waits() -> None:
    engine = EngineProcess(
        EngineOptions(checkpoint="nowhere", mode="fp32", threads=1, slots=1, max_prefill=1, max_length=8),
        EngineObserver(),
    )
    generation = engine.submit(GenerationRequest([5, 2], 3))
    assert engine.load == 1
    await engine.stop()
    assert engine.load == 0
    with pytest.raises(EngineFailed, match="stopped"):
        await generation.next_tokens(deadline=float("inf"))
