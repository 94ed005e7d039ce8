"""Readers of long texts who take ten tokens a second, however many there are; the others' streams must not wait."""

from typing import Final

from locust import between, task

from loadtest.load.scenarios.users import TranslatingUser, document, sentence

_PAUSE_SECONDS: Final = 0.1


class SlowReaders(TranslatingUser):
    weight = 3

    @task
    def translate(self) -> None:
        self.read_stream(document(20), pause_seconds=_PAUSE_SECONDS)


class Others(TranslatingUser):
    weight = 1
    wait_time = between(0.2, 1.0)

    @task
    def translate(self) -> None:
        self.wait_for_json(sentence())
