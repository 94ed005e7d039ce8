"""OpenTelemetry traces, if enabled. No other module imports opentelemetry, which is an extra.

Each request has a span that continues the caller's `traceparent`, with child spans of its translation: `queue` until
the first sentence has a slot, `prefill` until the first token, `decode` until the end. The standard OTEL_ variables set
the exporter, the sampling and the name of the service. Spans never hold a text or a key.

Not opentelemetry-instrumentation-asgi: its spans hold the URL with its query, end before the request's outcome is
known, and cost time for every message of a stream.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.settings import UnusableSettingError
from service.translation.translation import Progress, Translation

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

_NANOSECONDS: Final = 1_000_000_000
_FIRST_SERVER_ERROR: Final = 500


def provider(version: str) -> "TracerProvider":
    """Build the exporter and its provider. Raises `UnusableSettingError` if the extra is not installed."""
    try:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        sender = exporter()
    except ImportError:
        raise UnusableSettingError(
            "traces: OpenTelemetry is missing; install it with `pip install '.[otel]'`"
        ) from None
    ours = Resource.create({"service.name": "dragoman", "service.version": version})
    # OTEL_ variables win over our default name.
    made = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
    made.add_span_processor(BatchSpanProcessor(sender))
    return made


def exporter() -> "SpanExporter":
    """Build the OTLP exporter over HTTP; OTEL_ variables set its target."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


class RequestTracing:
    """Middleware that records a span for each request, except on `untraced` paths.

    It is the outermost one: id, outcome and translation are in the request's state when the inner ones are done.
    """

    def __init__(self, app: ASGIApp, made: "TracerProvider", untraced: frozenset[str]) -> None:
        self._app = app
        self._tracer: Tracer = made.get_tracer("dragoman")
        self._untraced = untraced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._untraced:
            await self._app(scope, receive, send)
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, format_trace_id

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        state = scope.setdefault("state", {})
        status = 0

        async def send_noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        method = scope["method"]
        with self._tracer.start_as_current_span(method, extract(headers), SpanKind.SERVER) as span:
            state["trace_id"] = format_trace_id(span.get_span_context().trace_id)
            try:
                await self._app(scope, receive, send_noted)
            finally:
                route = getattr(scope.get("route"), "path", None)
                if route is not None:
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                span.set_attributes({"http.request.method": method, "http.response.status_code": status})
                self._describe(span, state, status)

    def _describe(self, span: "Span", state: dict[str, Any], status: int) -> None:
        from opentelemetry.trace import StatusCode

        for name in ("request_id", "outcome", "key_name"):
            if value := state.get(name):
                span.set_attribute(f"dragoman.{name}", value)
        if status >= _FIRST_SERVER_ERROR:
            span.set_status(StatusCode.ERROR)
        translation = state.get("translation")
        if isinstance(translation, Translation):
            self._add(span, translation.progress())

    def _add(self, span: "Span", progress: Progress) -> None:
        span.set_attributes(
            {
                "dragoman.segments": progress.segments,
                "dragoman.source_tokens": progress.source_tokens,
                "dragoman.generated_tokens": progress.generated_tokens,
            }
        )
        # Spans need the time of day; durations are measured by the monotonic clock.
        offset = time.time_ns() - int(time.monotonic() * _NANOSECONDS)
        for name, started, ended in _phases(progress):
            child = self._tracer.start_span(name, start_time=offset + int(started * _NANOSECONDS))
            child.end(offset + int(ended * _NANOSECONDS))
        if progress.first_token_at is not None:
            span.add_event("first token", timestamp=offset + int(progress.first_token_at * _NANOSECONDS))


def _phases(progress: Progress) -> Iterator[tuple[str, float, float]]:
    """Yield the phases that a translation has reached, with their begin and end."""
    marks = (progress.started_at, progress.admitted_at, progress.first_token_at, progress.ended_at)
    for name, started, ended in zip(("queue", "prefill", "decode"), marks, marks[1:], strict=False):
        if started is None:
            return
        yield name, started, progress.ended_at if ended is None else ended
