"""Texts of 20 to 60 sentences, one after the other for each user."""

import random
from typing import Final

from locust import task

from loadtest.load.scenarios.users import TranslatingUser, document

_FEWEST: Final = 20
_MOST: Final = 60


class Documents(TranslatingUser):
    """Half of them read along, half wait for the whole."""

    @task
    def read(self) -> None:
        self.read_stream(document(random.randint(_FEWEST, _MOST)))

    @task
    def wait(self) -> None:
        self.wait_for_json(document(random.randint(_FEWEST, _MOST)))
