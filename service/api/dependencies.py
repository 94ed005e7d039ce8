"""What the routes of one application share."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.access.control import Access
from service.errors import NotReady
from service.glossary_store import GlossaryStore
from service.observability.metrics import Metrics
from service.registry.registry import ModelRegistry
from service.settings import Settings
from service.translation.translator import Translator


@dataclass
class Service:
    """What the routes need; built by `app.create_app`. `draining` is set at the end, and stays."""

    settings: Settings
    translator: Translator
    library: ModelRegistry
    metrics: Metrics
    access: Access
    glossaries: GlossaryStore
    draining: bool = False
    """Running requests may finish, new ones are refused."""

    @property
    def ready(self) -> bool:
        return self.library.ready and not self.draining

    def check_ready(self) -> None:
        """Raises `NotReady` with the reason."""
        if self.draining:
            raise NotReady("the server is shutting down")
        if not self.ready:
            raise NotReady(self.library.why_not_ready)


async def service_of(request: Request) -> Service:
    """The service behind a request, for `Depends`: which runs what is not asynchronous in threads, forty at once."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


ServiceDependency = Annotated[Service, Depends(service_of)]
