"""Traces of real translations, in memory instead of sent."""

import subprocess
import sys

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from service.server.app import create_app
from service.settings import Settings, UnusableSettingError
from tests.system.sentences import SENTENCES

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BODY = {"q": " ".join(SENTENCES[:3]), "source": "en", "target": "fr"}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    monkeypatch.setattr("service.observability.tracing.exporter", lambda: exporter)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our-translator")
    return exporter


def _seconds(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


def _attributes(span: ReadableSpan) -> dict[str, object]:
    assert span.attributes is not None
    return dict(span.attributes)


async def test_a_request_s_spans(exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "dragoman.requests")
    app = create_app(Settings(traces=True, replicas=1))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, timeout=60) as client:
        await app.state.service.library.wait_until_tried()
        url = "http://server/translate"
        answers = [
            await client.post(url, json=BODY, headers={"traceparent": PARENT, "X-Request-ID": "mine"}),
            await client.post(url, json={**BODY, "stream": True}),
            await client.post(url, json={**BODY, "target": "xx"}),
            await client.post(url, json={**BODY, "timeout_seconds": 1e-9}),
            await client.get("http://server/not-there?q=secret"),
            await client.get("http://server/readyz"),
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 400, 504, 404, 200]
    spans = exporter.get_finished_spans()
    servers = [span for span in spans if span.kind is SpanKind.SERVER]
    assert [span.name for span in servers] == ["POST /translate"] * 4 + ["GET"]
    whole, stream, refused, late, lost = servers

    # The caller's trace goes on, and its log line tells which it is.
    assert whole.parent is not None
    assert format_span_id(whole.parent.span_id) == PARENT.split("-")[2]
    assert format_trace_id(whole.context.trace_id) == PARENT.split("-")[1]
    assert caplog.records[0].__dict__["trace_id"] == PARENT.split("-")[1]
    assert stream.parent is None
    for span in (whole, stream):
        attributes = _attributes(span)
        assert (attributes["http.route"], attributes["http.response.status_code"]) == ("/translate", 200)
        assert attributes["dragoman.segments"] == 3
        assert attributes["dragoman.generated_tokens"] == _tokens(answers[1])
        children = [each for each in spans if each.parent and each.parent.span_id == span.context.span_id]
        assert [each.name for each in children] == ["queue", "prefill", "decode"]
        assert [each.end_time for each in children[:2]] == [each.start_time for each in children[1:]]
        assert all(_seconds(each) >= 0 for each in children)
        assert sum(map(_seconds, children)) <= _seconds(span)
        [first_token] = span.events
        assert (first_token.name, first_token.timestamp) == ("first token", children[2].start_time)
    assert _attributes(whole)["dragoman.request_id"] == "mine"
    assert _attributes(stream)["dragoman.outcome"] == "ok"
    assert _attributes(refused)["dragoman.outcome"] == "invalid_request"
    assert refused.status.status_code is StatusCode.UNSET
    assert late.status.status_code is StatusCode.ERROR
    assert "http.route" not in _attributes(lost)

    resource = whole.resource.attributes
    assert resource["service.name"] == "our-translator"
    assert resource["service.version"]
    everything = "".join(span.to_json() for span in spans)
    assert "secret" not in everything
    assert not any(sentence in everything for sentence in SENTENCES[:3])


def _tokens(streamed: httpx.Response) -> int:
    return streamed.text.count("event: token")


def test_without_traces_nothing_of_it_is_needed() -> None:
    """FastAPI brings the interface itself; what sends traces is not there."""
    script = """
import sys
sys.modules["opentelemetry.sdk"] = sys.modules["opentelemetry.exporter"] = None
from service.server.app import create_app
from service.settings import Settings
print(create_app(Settings()).title)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "Dragoman\n"


def test_a_missing_extra_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(UnusableSettingError, match=r"traces: .*\.\[otel\]"):
        create_app(Settings(traces=True))
