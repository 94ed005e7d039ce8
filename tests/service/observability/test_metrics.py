"""The metrics, in base units: what moves each of them."""

from pathlib import Path

import pytest

from service.engine.messages import Admitted, StepReport, StepStats, TokenBlock, TokenReport
from service.observability.metrics import Metrics
from service.registry.model_version import State
from service.server.app import create_app
from service.server.composition import build_service
from service.settings import EMBEDDED_MODEL, Settings
from tests.generation_requests import generation_request, submitted


def _lines(metrics: Metrics) -> list[str]:
    return metrics.exposition().decode().splitlines()


def test_a_step_and_a_request_are_counted() -> None:
    metrics = Metrics("1", "fp32")
    observer = metrics.observer("en-fr", 0)
    stats = StepStats(5, batch_rows=4, steps=3, source_tokens=8, encode_seconds=0.2, step_seconds=0.004)
    observer.step(StepReport([TokenReport(1, 5, -0.1), TokenReport(2, 5, -0.1)], stats))
    observer.admitted([0.1])
    observer.first_tokens([0.03])
    observer.next_tokens([0.0015], 0)
    metrics.request_finished("/translate", "ok", 0.5)
    metrics.request_finished("/translate", "deadline_exceeded", 119.0)
    lines = _lines(metrics)
    for expected in (
        'dragoman_source_tokens_total{model="en-fr"} 8.0',
        'dragoman_generated_tokens_total{model="en-fr"} 2.0',
        'dragoman_batch_rows_bucket{le="2.0"} 0.0',
        'dragoman_batch_rows_bucket{le="4.0"} 3.0',
        'dragoman_step_seconds_bucket{le="0.005"} 3.0',
        'dragoman_step_seconds_bucket{le="0.002"} 0.0',
        'dragoman_inter_token_seconds_bucket{le="0.002"} 1.0',
        'dragoman_requests_total{endpoint="/translate",outcome="ok"} 1.0',
        'dragoman_request_seconds_bucket{endpoint="/translate",le="60.0"} 1.0',
        'dragoman_request_seconds_bucket{endpoint="/translate",le="120.0"} 2.0',
    ):
        assert expected in lines
    observer.restarted()
    assert 'dragoman_engine_restarts_total{model="en-fr",replica="0"} 1.0' in _lines(metrics)


def test_the_cache_is_counted() -> None:
    metrics = Metrics("1", "int8")
    observer = metrics.cache_observer
    for counted, times in ((observer.hit, 1), (observer.joined, 2), (observer.missed, 3), (observer.evicted, 4)):
        for _ in range(times):
            counted()
    observer.resized(5)
    names = ("hits_total", "joined_total", "misses_total", "evictions_total", "bytes")
    assert {f"dragoman_cache_{name} {number}.0" for number, name in enumerate(names, 1)} <= {*_lines(metrics)}


async def test_models_and_engines_are_seen_as_they_are() -> None:
    """Every engine has its gauges, also one that has sent nothing."""
    service = build_service(Settings(model=EMBEDDED_MODEL, replicas=2, slots=8))
    [entry] = service.library.versions
    assert entry.model is not None
    pool = entry.model.pool

    def seen() -> set[str]:
        lines = service.metrics.exposition(service.ready, service.library.versions).decode().splitlines()
        names = ["ready", "models", "model_load_failed", "engine_ready", "requests_running", "requests_waiting"]
        names += ["slots", "slots_used"]
        return {
            line
            for line in lines
            if line.startswith(tuple(f"dragoman_{name}{mark}" for name in names for mark in " {"))
        }

    assert {"dragoman_ready 0.0", 'dragoman_models{state="loading"} 1.0'} <= seen()
    assert 'dragoman_models{state="failed"} 0.0' in seen()
    assert not any("engine_ready" in line for line in seen()), "nobody expects it yet"
    for _ in range(3):
        submitted(pool.engines[1].requests, generation_request([5, 2], 4))
    assert 'dragoman_requests_waiting{model="en-fr",replica="1"} 3.0' in seen()
    pool.engines[1]._handle(Admitted([0, 1], [0.1, 0.1]))
    pool.engines[1]._handle(StepReport([], StepStats(2)))
    entry.state, pool.running = State.READY, True
    assert seen() >= {
        'dragoman_models{state="loading"} 0.0',
        'dragoman_models{state="ready"} 1.0',
        'dragoman_engine_ready{model="en-fr",replica="0"} 0.0',
        'dragoman_engine_ready{model="en-fr",replica="1"} 0.0',
        'dragoman_requests_waiting{model="en-fr",replica="0"} 0.0',
        'dragoman_requests_waiting{model="en-fr",replica="1"} 1.0',
        'dragoman_requests_running{model="en-fr",replica="1"} 2.0',
        'dragoman_slots{model="en-fr",replica="1"} 0.0',
        'dragoman_slots_used{model="en-fr",replica="1"} 2.0',
    }
    pool.engines[1]._loaded.set()
    assert seen() >= {
        'dragoman_engine_ready{model="en-fr",replica="1"} 1.0',
        'dragoman_slots{model="en-fr",replica="1"} 8.0',
    }
    assert 'dragoman_model_load_failed{model="en-fr"} 0.0' in seen()
    entry.state, entry.reason = State.LOADING, "no room for its engines the last time"
    assert {'dragoman_model_load_failed{model="en-fr"} 1.0', 'dragoman_models{state="loading"} 1.0'} <= seen()
    service.library.versions.clear()
    assert not any("en-fr" in line for line in seen()), "an unloaded model has no metrics"


def test_a_first_failure_is_a_rise_from_zero() -> None:
    """A counter that appears with its first event has no rate that an alert could see."""
    metrics = Metrics("1", "fp32")
    metrics.expect_requests("/translate")
    for outcome in ("ok", "cancelled", "internal_error", "queue_full", "engine_failed", "deadline_exceeded"):
        assert f'dragoman_requests_total{{endpoint="/translate",outcome="{outcome}"}} 0.0' in _lines(metrics)


def test_all_routes_that_translate_have_their_outcomes_from_the_start() -> None:
    lines = _lines(create_app(Settings()).state.service.metrics)
    for endpoint in ("/translate", "/translate/stream", "/v2/translate"):
        assert f'dragoman_requests_total{{endpoint="{endpoint}",outcome="engine_failed"}} 0.0' in lines


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the collector reads /proc")
def test_the_process_is_seen() -> None:
    names = {line.split()[0] for line in _lines(Metrics("1", "fp32"))}
    assert names >= {"process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"}


def test_a_block_is_counted_by_tokens_and_steps() -> None:
    metrics = Metrics("1", "fp32")
    observer = metrics.observer("en-fr", 0)
    stats = StepStats(2, batch_rows=2, steps=4, step_seconds=0.003)
    observer.step(StepReport([TokenReport(1, 5, -0.1)], stats, block=TokenBlock(b"", bytes([4, 3]))))
    observer.next_tokens([], 5)
    lines = _lines(metrics)
    assert 'dragoman_generated_tokens_total{model="en-fr"} 8.0' in lines
    assert 'dragoman_step_seconds_bucket{le="0.002"} 0.0' in lines
    assert 'dragoman_step_seconds_bucket{le="0.005"} 4.0' in lines
    assert "dragoman_step_seconds_sum 0.012" in lines
    assert 'dragoman_batch_rows_bucket{le="2.0"} 4.0' in lines
    assert 'dragoman_inter_token_seconds_bucket{le="0.001"} 5.0' in lines
