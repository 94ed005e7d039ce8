"""The base of all load's users: read a stream, wait for JSON, leave early; and locust's rows for them."""

import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from gevent import sleep
from locust import FastHttpUser, events
from locust.argument_parser import LocustArgumentParser
from locust.contrib.fasthttp import FAILURE_EXCEPTIONS, ResponseContextManager

from loadtest.load.sse import Event, find_problem, read_events
from loadtest.sentences import LANGUAGES, SENTENCES

STREAM: Final = "/translate (stream)"
REFUSED: Final = "/translate (refused)"
"""Kept apart from the rows of the others: a refusal takes no time, and would pass for a fast response."""
FIRST_TOKEN: Final = "time to first token"
# Status 0 is locust's word for "no answer": connection refused, reset or timed out.
_STATUS_FAILURES: Final = {0: "no answer", 429: "429 refused: too many requests waiting"}
# A compressed stream could not be read line by line.
_STREAM_HEADERS: Final = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}


def _add_options(parser: LocustArgumentParser) -> None:
    parser.add_argument("--rate", type=float, default=5.0, help="Requests a second that each Interactive starts")
    parser.add_argument("--options", default="{}", help="More fields of each request, as JSON: '{\"beam_size\": 4}'")


events.init_command_line_parser.add_listener(_add_options)  # type: ignore[no-untyped-call]


def sentence() -> str:
    return random.choice(SENTENCES)


def document(sentences: int) -> str:
    return " ".join(random.choices(SENTENCES, k=sentences))


class TranslatingUser(FastHttpUser):
    """Has what others need to translate; does nothing by itself."""

    abstract = True
    host = "http://127.0.0.1:5000"

    def read_stream(self, text: str, *, pause_seconds: float = 0.0, leave_after: int | None = None) -> None:
        """Read a translation token by token, and check it.

        A slow reader pauses after each token; one who leaves hangs up after so many tokens. Besides the whole
        request, reports `time to first token` (from sending the request) and `inter-token time` (between tokens of
        one request, less the reader's own pauses) as rows of their own, in ms.
        """
        started = time.perf_counter()
        with self.client.request(
            "POST",
            "/translate",
            name=STREAM if leave_after is None else "/translate (left)",
            json=self._body(text, stream=True),
            headers=_STREAM_HEADERS,
            stream=True,
            catch_response=True,
        ) as response:
            if response.status_code != 200:
                _fail(response)
                return
            try:
                problem = self._read(response.stream.readline, started, pause_seconds, leave_after)
            except (ValueError, KeyError):
                problem = "malformed event"
            except FAILURE_EXCEPTIONS:
                problem = "connection lost in mid-stream"
            finally:
                if leave_after is not None:
                    response.stream.release()  # with what is unread: the connection is closed
            # Locust's own figure ends with the headers.
            response.request_meta["response_time"] = _milliseconds_since(started)
            if problem is not None:
                response.failure(problem)

    def _read(
        self, readline: Callable[[bytes], bytes], started: float, pause_seconds: float, leave_after: int | None
    ) -> str | None:
        """Read a stream to its end, or as long as wanted; returns what is wrong with it."""
        events: list[Event] = []
        tokens, row, since = 0, FIRST_TOKEN, started
        if leave_after == 0:
            return None
        # Not iter_lines(): it waits for 1,024 bytes, which is a dozen tokens.
        for event in read_events(lambda: readline(b"\n")):
            events.append(event)
            if event[0] != "token":
                continue
            self._report(row, _milliseconds_since(since))
            tokens += 1
            if tokens == leave_after:
                return None
            if pause_seconds:
                sleep(pause_seconds)
            row, since = "inter-token time", time.perf_counter()
        return find_problem(events)

    def wait_for_json(self, q: str | Sequence[str]) -> None:
        """Request the whole translation at once, as LibreTranslate's clients do."""
        with self.client.request(
            "POST", "/translate", name="/translate (JSON)", json=self._body(q, stream=False), catch_response=True
        ) as response:
            if response.status_code != 200:
                _fail(response)
            elif not _is_translation(response.text, q):
                response.failure("answer without translatedText")

    def _body(self, q: str | Sequence[str], *, stream: bool) -> dict[str, Any]:
        options: dict[str, Any] = json.loads(self.environment.parsed_options.options)
        return {"q": q, **LANGUAGES, "stream": stream, **options}

    def _report(self, name: str, milliseconds: float) -> None:
        self.environment.events.request.fire(
            request_type="SSE",
            name=name,
            response_time=milliseconds,
            response_length=0,
            exception=None,
            context={},
        )


def _fail(response: ResponseContextManager) -> None:
    """Report a response whose status is not 200."""
    if response.status_code == 429:
        response.request_meta["name"] = REFUSED
    failure = _STATUS_FAILURES.get(response.status_code, f"status {response.status_code}")
    response.failure(failure)  # type: ignore[no-untyped-call]


def _milliseconds_since(moment: float) -> float:
    return (time.perf_counter() - moment) * 1000


def _is_translation(text: str | None, q: str | Sequence[str]) -> bool:
    try:
        answer = json.loads(text or "")
    except ValueError:
        return False
    translated = answer.get("translatedText") if isinstance(answer, dict) else None
    if isinstance(q, str):
        return isinstance(translated, str)
    return isinstance(translated, list) and len(translated) == len(q)
