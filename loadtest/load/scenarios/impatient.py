"""Clients that hang up: before the first token, after a few, and some who stay. Their slots must be free again."""

import random
from typing import Final

from locust import between, task

from loadtest.load.scenarios.users import TranslatingUser, document, sentence

_MOST_TOKENS: Final = 10


class Impatient(TranslatingUser):
    weight = 3
    wait_time = between(0.0, 0.2)

    @task
    def leave(self) -> None:
        self.read_stream(document(20), leave_after=random.randint(0, _MOST_TOKENS))


class Patient(TranslatingUser):
    weight = 1
    wait_time = between(0.2, 1.0)

    @task
    def stay(self) -> None:
        self.read_stream(sentence())
