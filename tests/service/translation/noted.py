"""An engine that only records its requests."""

from dataclasses import dataclass
from typing import Protocol

from service.engine.generation_request import GenerationRequest
from service.engine.messages import TokenReport
from service.registry.routing import Routes
from service.supervisor.generation import Generation, Reader
from service.translation.options import Limits
from service.translation.translator import Translator

LIMITS = Limits(
    max_characters=10_000,
    max_texts=10,
    max_segments_in_flight=4,
    max_beam_size=4,
    timeout_seconds=10,
)


@dataclass
class Offered:
    routes: Routes


class NotedPool:
    running = True
    replacing = False

    def __init__(self) -> None:
        self.requests: list[GenerationRequest] = []
        self.generations: list[Generation] = []

    def admit(self) -> None:
        pass

    def submit(self, request: GenerationRequest, scope: str | None = None) -> Reader:
        self.requests.append(request)
        self.generations.append(Generation(request))
        return self.generations[-1].add_reader()

    def end(self, *numbers: int) -> None:
        """End requests with their first token."""
        for number in numbers:
            self.generations[number].deliver(TokenReport(number, 2, 0.0, "stop"))


class Of(Protocol):
    """Makes a translator of some directions, such as `en-fr`."""

    def __call__(self, *directions: str) -> Translator: ...
