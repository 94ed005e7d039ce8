"""Sentences at random moments while others send documents and arrays: who sends little should not feel it."""

from locust import between, task

# Not the classes of these: locust runs every one that it finds here.
from loadtest.load.scenarios import documents, interactive
from loadtest.load.scenarios.users import TranslatingUser, sentence


class Readers(interactive.Interactive):
    weight = 6


class Writers(documents.Documents):
    weight = 1
    wait_time = between(1.0, 3.0)


class Arrays(TranslatingUser):
    """A program that translates a list at a time."""

    weight = 1
    wait_time = between(1.0, 3.0)

    @task
    def translate(self) -> None:
        self.wait_for_json([sentence() for _ in range(20)])
