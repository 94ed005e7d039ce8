"""The metrics for Prometheus, in base units and without labels of unbounded cardinality.

No other module imports prometheus_client.
"""

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from service.access.control import Refusal
from service.engine.messages import StepReport
from service.errors import ServiceError
from service.registry.model_version import ModelVersion, State
from service.supervisor.cache import CacheObserver
from service.supervisor.engine_requests import EngineObserver

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

# From 1 ms, a step of a small model, to more than the default deadline of 120 s.
_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def _codes(kind: type[ServiceError]) -> Iterator[str]:
    yield kind.code
    for each in kind.__subclasses__():
        yield from _codes(each)


_OUTCOMES: Final = ("ok", "cancelled", *dict.fromkeys(_codes(ServiceError)))


class _Histogram(Histogram):
    """A histogram that observes several values at once: tokens are many."""

    def observe_many(self, amount: float, count: int) -> None:
        """Observe a value so many times."""
        self._sum.inc(amount * count)
        self._buckets[bisect_left(self._upper_bounds, amount)].inc(count)

    def observe_all(self, amounts: Sequence[float]) -> None:
        """Observe each value."""
        self._sum.inc(sum(amounts))
        for bucket, count in Counts(bisect_left(self._upper_bounds, amount) for amount in amounts).items():
            self._buckets[bucket].inc(count)


class Metrics:
    """The metrics of one application, with a registry of its own: a process may have several applications."""

    def __init__(self, version: str, mode: str) -> None:
        self._version_and_mode = version, mode
        self._registry = CollectorRegistry()
        self._requests = self._counter("requests", "Finished requests by endpoint and outcome", "endpoint", "outcome")
        self._refusals = self._counter("refusals", "Requests refused by access control, by reason", "reason")
        for reason in get_args(Refusal):
            self._refusals.labels(reason)
        self._request_seconds = self._histogram(
            "request_seconds", "Time from request to last byte", _SECONDS, "endpoint"
        )
        self._ready = self._gauge("ready", "1 if /readyz returns 200")
        self._models = self._gauge("models", "Models by state", "state")
        self._load_failed = self._gauge("model_load_failed", "1 if the last attempt to load the model failed", "model")
        self._downloaded = self._gauge(
            "model_download_ratio", "Share of a model's files that are here: less than 1 during a download", "model"
        )
        self._memory = self._gauge("engine_memory_bytes", "Resident memory of the engine processes of a model", "model")
        self._engine_ready = self._gauge(
            "engine_ready", "1 if the engine of a loaded model is ready", "model", "replica"
        )
        self._running = self._gauge(
            "requests_running", "Segments in slots, including those of engines that do not respond", "model", "replica"
        )
        self._waiting = self._gauge(
            "requests_waiting", "Segments waiting for a slot or for an engine", "model", "replica"
        )
        self._slots = self._gauge("slots", "Cache slots of ready engines", "model", "replica")
        self._slots_used = self._gauge("slots_used", "Cache slots in use", "model", "replica")
        self._queue_seconds = self._histogram("queue_seconds", "Time that a segment waits for a slot", _SECONDS)
        self._first_token = self._histogram(
            "time_to_first_token_seconds", "Time from the submission of a segment to its first token", _SECONDS
        )
        self._inter_token = self._histogram("inter_token_seconds", "Time between two tokens of a segment", _SECONDS)
        self._source_tokens = self._counter("source_tokens", "Source tokens encoded", "model")
        self._generated_tokens = self._counter(
            "generated_tokens", "Tokens generated; its rate is tokens per second", "model"
        )
        self._batch_rows = self._histogram("batch_rows", "Rows of a decode step", _ROWS)
        self._encode_seconds = self._histogram(
            "encode_seconds", "Encoder time of a step that admitted segments", _SECONDS
        )
        self._step_seconds = self._histogram("step_seconds", "Decoder and sampling time of a step", _SECONDS)
        self._restarts = self._counter(
            "engine_restarts", "Engine processes that ended or could not be started", "model", "replica"
        )
        self.cache_observer = CacheObserver(
            hit=self._counter("cache_hits", "Segments that the cache had").inc,
            joined=self._counter("cache_joined", "Segments that shared the decode of an equal one in flight").inc,
            missed=self._counter("cache_misses", "Segments that were decoded, and may then be kept").inc,
            evicted=self._counter("cache_evictions", "Finished segments evicted for newer ones").inc,
            resized=self._gauge("cache_bytes", "Memory of the finished segments").set,
        )
        self.live_updated = self._histogram(
            "live_update_seconds", "Time from a change of a live source to its translation", _SECONDS
        ).observe
        self.live_overtaken = self._counter(
            "live_updates_overtaken", "Updates of live sources cancelled for newer ones"
        ).inc
        self.live_opened = self._gauge("live_sessions", "Live sessions, with and without a connection").set
        self._build_info = self._gauge(
            "build_info", "Always 1; the labels describe the server", "version", "mode", "model", "directions"
        )
        self._tasks = self._gauge("tasks", "asyncio tasks of the HTTP process, this scrape's included")
        # Memory, descriptors and start time of the HTTP process, on Linux.
        ProcessCollector(registry=self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"dragoman_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"dragoman_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> "_Histogram":
        return _Histogram(f"dragoman_{name}", text, labels, registry=self._registry, buckets=buckets)

    def exposition(self, ready: bool = False, entries: Iterable[ModelVersion] = (), tasks: int = 0) -> bytes:
        """Render the text that Prometheus scrapes; `tasks` is the number of asyncio tasks.

        Gauges are read at scrape time from the state of this process: no engine is asked, which could hang.
        """
        self._ready.set(ready)
        self._tasks.set(tasks)
        self._read_gauges(entries)
        return generate_latest(self._registry)

    def _read_gauges(self, entries: Iterable[ModelVersion]) -> None:
        per_engine = (self._engine_ready, self._running, self._waiting, self._slots, self._slots_used)
        for gauge in (self._models, self._load_failed, self._downloaded, self._memory, *per_engine):
            gauge.clear()
        for state in State:
            self._models.labels(state)
        for entry in entries:
            self._models.labels(entry.state).inc()
            # Also during a retry, which takes minutes, and while a retry waits for a request.
            self._load_failed.labels(entry.name).inc(entry.reason is not None)
            downloading = entry.state is State.DOWNLOADING
            self._downloaded.labels(entry.name).set(entry.downloaded or 0.0 if downloading else 1.0)
            if entry.model is None:
                continue
            pool = entry.model.pool
            # Added up: two versions of a model of the same name may be in memory.
            self._memory.labels(entry.name).inc(entry.memory_bytes)
            for replica, engine in enumerate(pool.engines):
                labels = entry.name, str(replica)
                if entry.state is State.READY:
                    self._engine_ready.labels(*labels).set(engine.ready)
                self._running.labels(*labels).inc(engine.requests.running)
                self._waiting.labels(*labels).inc(engine.requests.waiting)
                self._slots.labels(*labels).inc(engine.slots if engine.ready else 0)
                self._slots_used.labels(*labels).inc(engine.slots_used)

    def expect_requests(self, endpoint: str) -> None:
        """Export every outcome of an endpoint from the start: Prometheus sees a first failure only as a rise from 0."""
        self._request_seconds.labels(endpoint)
        for outcome in _OUTCOMES:
            self._requests.labels(endpoint, outcome)

    def request_finished(self, endpoint: str, outcome: str, seconds: float) -> None:
        """Count one request; `endpoint` is a route's path, `outcome` ok, cancelled or an error's code."""
        self._requests.labels(endpoint, outcome).inc()
        self._request_seconds.labels(endpoint).observe(seconds)

    def refused(self, reason: Refusal) -> None:
        """Count one request that access control refused."""
        self._refusals.labels(reason).inc()

    def models_served(self, models: Mapping[str, str]) -> None:
        """Set the served models: their names, and their directions for people."""
        self._build_info.clear()
        for model, directions in models.items():
            self._build_info.labels(*self._version_and_mode, model, directions).set(1)

    def observer(self, model: str, replica: int) -> EngineObserver:
        """Return the observer of one engine process of a model."""
        source_tokens, generated_tokens = self._source_tokens.labels(model), self._generated_tokens.labels(model)

        def step(report: StepReport) -> None:
            stats = report.stats
            source_tokens.inc(stats.source_tokens)
            generated_tokens.inc(len(report.tokens) + report.block.tokens)
            if stats.encode_seconds is not None:
                self._encode_seconds.observe(stats.encode_seconds)
            if stats.step_seconds is not None:
                self._step_seconds.observe_many(stats.step_seconds, stats.steps)
                self._batch_rows.observe_many(stats.batch_rows, stats.steps)

        def next_tokens(seconds: Sequence[float], together: int) -> None:
            self._inter_token.observe_all(seconds)
            self._inter_token.observe_many(0.0, together)

        return EngineObserver(
            step,
            admitted=self._queue_seconds.observe_all,
            first_tokens=self._first_token.observe_all,
            next_tokens=next_tokens,
            restarted=self._restarts.labels(model, str(replica)).inc,
        )
