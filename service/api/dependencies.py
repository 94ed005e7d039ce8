"""The context that the routes of one application share."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.access.control import AccessControl
from service.errors import NotReady
from service.glossary_store import GlossaryStore
from service.observability.metrics import Metrics
from service.registry.registry import ModelRegistry
from service.settings import Settings
from service.suggestion_store import SuggestionStore
from service.translation.translator import Translator


@dataclass
class ServiceContext:
    """Everything that the routes need, built by `app.build_service`. `draining` is set at shutdown and stays set."""

    settings: Settings
    translator: Translator
    library: ModelRegistry
    metrics: Metrics
    access: AccessControl
    glossaries: GlossaryStore
    suggestions: SuggestionStore
    draining: bool = False
    """Running requests may finish; new ones are refused."""

    @property
    def ready(self) -> bool:
        return self.library.ready and not self.draining

    def check_ready(self) -> None:
        """Raise `NotReady` with the reason if requests cannot be served now."""
        if self.draining:
            raise NotReady("the server is shutting down")
        if not self.ready:
            raise NotReady(self.library.why_not_ready)


async def service_of(request: Request) -> ServiceContext:
    """Return the context of a request. Asynchronous, because `Depends` runs other functions in one of forty threads."""
    service = request.app.state.service
    assert isinstance(service, ServiceContext)
    return service


ServiceDependency = Annotated[ServiceContext, Depends(service_of)]
