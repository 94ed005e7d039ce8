"""Users for `locust -f loadtest/load/scenarios.py CLASS ...`: docs/load-testing.md has the scenarios."""

import random
import time
from typing import Final

from gevent.pool import Group
from locust import between, task

from loadtest.load.locustfile import JsonUser, StreamingUser
from loadtest.load.users import TranslatingUser, document, sentence

__all__ = ["Arrays", "Documents", "Impatient", "Interactive", "JsonUser", "SlowReaders", "StreamingUser", "Writers"]

_FEWEST_SENTENCES: Final = 20
_MOST_SENTENCES: Final = 60
_MOST_TOKENS: Final = 10
_PAUSE_SECONDS: Final = 0.1
_LAST_ONES_SECONDS: Final = 10.0
"""Time that the requests have which run at the end."""


class Interactive(TranslatingUser):
    """Single sentences at random moments, `--rate` a second for each user, however long the answers take."""

    weight = 6
    concurrency = 100_000  # connections; no request waits for another one's

    def on_start(self) -> None:
        self._running = Group()
        self._next_at = time.perf_counter()

    def on_stop(self) -> None:
        self._running.join(timeout=_LAST_ONES_SECONDS)

    def wait_time(self) -> float:
        # From the planned moment, not from now: a generator that lags behind catches up.
        self._next_at += random.expovariate(self.environment.parsed_options.rate)
        return max(0.0, self._next_at - time.perf_counter())

    @task
    def arrive(self) -> None:
        self._running.spawn(self.read_stream, sentence())


class Documents(TranslatingUser):
    """Texts of 20 to 60 sentences, one after the other: half of them are read along, half are waited for."""

    @task
    def read(self) -> None:
        self.read_stream(document(random.randint(_FEWEST_SENTENCES, _MOST_SENTENCES)))

    @task
    def wait(self) -> None:
        self.wait_for_json(document(random.randint(_FEWEST_SENTENCES, _MOST_SENTENCES)))


class Writers(Documents):
    """Documents with time between them."""

    wait_time = between(1.0, 3.0)


class Arrays(TranslatingUser):
    """A program that translates a list at a time."""

    wait_time = between(1.0, 3.0)

    @task
    def translate(self) -> None:
        self.wait_for_json([sentence() for _ in range(20)])


class SlowReaders(TranslatingUser):
    """Readers of long texts who take ten tokens a second, however many there are."""

    weight = 3

    @task
    def translate(self) -> None:
        self.read_stream(document(20), pause_seconds=_PAUSE_SECONDS)


class Impatient(TranslatingUser):
    """Clients that hang up before the first token or after a few; their slots must be free again."""

    weight = 9
    wait_time = between(0.0, 0.2)

    @task
    def leave(self) -> None:
        self.read_stream(document(20), leave_after=random.randint(0, _MOST_TOKENS))
