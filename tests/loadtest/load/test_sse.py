"""Reading streams: what is an event, and what is wrong with a stream."""

import pytest

from loadtest.load.sse import Event, find_problem, read_events
from service.api.sse import encode


def _event(name: str, **data: object) -> Event:
    return name, data


START = _event("start", id="1", segments=1, source="en", target="fr")
TOKENS = [_event("token", text=text) for text in ("Le", " chat", "")]
DONE = _event("done", translatedText="Le chat")


def test_reads_what_the_service_writes() -> None:
    stream = encode(0, "token", {"text": "été : \n"}) + encode(1, "done", {"translatedText": "été : \n"})

    lines = iter(stream.splitlines(keepends=True))
    assert list(read_events(lambda: next(lines, b""))) == [
        ("token", {"text": "été : \n"}),
        ("done", {"translatedText": "été : \n"}),
    ]


def test_a_whole_stream_has_no_problem() -> None:
    assert find_problem([START, *TOKENS, DONE]) is None


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([], "stream ended without done"),
        ([START, *TOKENS], "stream ended without done"),
        ([START, *TOKENS[1:], DONE], "token texts differ from translatedText"),
        ([START, *TOKENS, TOKENS[0], DONE], "token texts differ from translatedText"),
        ([START, *TOKENS, DONE, DONE], "stream went on after done"),
        ([START, *TOKENS, DONE, TOKENS[2]], "stream went on after done"),
        ([START, *TOKENS, _event("error", error="!", code="engine_failed")], "stream ended with error engine_failed"),
        ([START, *TOKENS, DONE, _event("error", error="!", code="late")], "stream ended with error late"),
    ],
)
def test_problems(events: list[Event], problem: str) -> None:
    assert find_problem(events) == problem
