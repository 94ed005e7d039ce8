"""Locust users: people who watch a translation being written, and programs that want the whole text.

`locust -f loadtest/load/locustfile.py --headless -u 8 -r 8 -t 20s`; docs/load-testing.md explains the rows it prints.
"""

from locust import between, task

from loadtest.load.users import TranslatingUser, sentence


class StreamingUser(TranslatingUser):
    """Reads a sentence's translation token by token, then thinks for a moment."""

    weight = 3
    wait_time = between(0.2, 1.0)

    @task
    def translate(self) -> None:
        self.read_stream(sentence())


class JsonUser(TranslatingUser):
    """Waits for the whole translation, as LibreTranslate's clients do."""

    weight = 1
    wait_time = between(0.2, 1.0)

    @task
    def translate(self) -> None:
        self.wait_for_json(sentence())
