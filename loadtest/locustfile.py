"""Locust users: people who watch a translation being written, and programs that want the whole text.

`locust -f loadtest/locustfile.py --headless -u 8 -r 8 -t 20s`; see README.md for the rows it prints.
"""

import json
import random
import time
from collections.abc import Callable
from typing import Final

from locust import FastHttpUser, between, task
from locust.contrib.fasthttp import FAILURE_EXCEPTIONS

from loadtest.sentences import SENTENCES
from loadtest.sse import Transcript, read_events

_SOURCE: Final = "en"
_TARGET: Final = "fr"
# Status 0 is locust's word for "no answer": connection refused, reset or timed out.
_STATUS_FAILURES: Final = {0: "no answer", 429: "429 refused: too many requests waiting"}
# A compressed stream could not be read line by line.
_STREAM_HEADERS: Final = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}


def _status_failure(status: int) -> str:
    return _STATUS_FAILURES.get(status, f"status {status}")


def _body(*, stream: bool) -> dict[str, object]:
    return {"q": random.choice(SENTENCES), "source": _SOURCE, "target": _TARGET, "stream": stream}


class StreamingUser(FastHttpUser):
    """Reads a sentence's translation token by token, then thinks for a moment.

    Besides the whole request, reports `time to first token` (from sending the request) and
    `inter-token time` (between tokens of one request) as rows of their own, in ms.
    """

    host = "http://127.0.0.1:5000"
    weight = 3
    wait_time = between(0.2, 1.0)

    @task
    def translate(self) -> None:
        started = time.perf_counter()
        with self.client.request(
            "POST",
            "/translate",
            name="/translate (stream)",
            json=_body(stream=True),
            headers=_STREAM_HEADERS,
            stream=True,
            catch_response=True,
        ) as response:
            if response.status_code != 200:
                response.failure(_status_failure(response.status_code))
                return
            try:
                problem = self._read(response.stream.readline, started)
            except ValueError:
                problem = "malformed event"
            except FAILURE_EXCEPTIONS:
                problem = "connection lost in mid-stream"
            # Locust's own figure ends with the headers.
            response.request_meta["response_time"] = _milliseconds_since(started)
            if problem is not None:
                response.failure(problem)

    def _read(self, readline: Callable[[bytes], bytes], started: float) -> str | None:
        """Read a stream to its end; returns what is wrong with it."""
        transcript = Transcript()
        row, since = "time to first token", started
        # Not iter_lines(): it waits for 1,024 bytes, which is a dozen tokens.
        for event in read_events(lambda: readline(b"\n")):
            if event.name == "token":
                self._report(row, _milliseconds_since(since))
                row, since = "inter-token time", time.perf_counter()
            transcript.add(event)
        return transcript.problem()

    def _report(self, name: str, milliseconds: float) -> None:
        self.environment.events.request.fire(
            request_type="SSE",
            name=name,
            response_time=milliseconds,
            response_length=0,
            exception=None,
            context={},
        )


class JsonUser(FastHttpUser):
    """Waits for the whole translation, as LibreTranslate's clients do."""

    host = "http://127.0.0.1:5000"
    weight = 1
    wait_time = between(0.2, 1.0)

    @task
    def translate(self) -> None:
        with self.client.request(
            "POST", "/translate", name="/translate (JSON)", json=_body(stream=False), catch_response=True
        ) as response:
            if response.status_code != 200:
                response.failure(_status_failure(response.status_code))
            elif not _is_translation(response.text):
                response.failure("answer without translatedText")


def _milliseconds_since(moment: float) -> float:
    return (time.perf_counter() - moment) * 1000


def _is_translation(text: str | None) -> bool:
    try:
        answer = json.loads(text or "")
    except ValueError:
        return False
    return isinstance(answer, dict) and isinstance(answer.get("translatedText"), str)
