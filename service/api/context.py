"""The context that the routes of one application share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.access.control import AccessControl
from service.documents.jobs import DocumentJobs
from service.errors import NotReady, UnknownLanguage
from service.live.sessions import LiveSessions
from service.observability.metrics import Metrics
from service.registry.registry import ModelRegistry
from service.stores.glossary_store import GlossaryStore
from service.stores.suggestion_store import SuggestionStore
from service.stores.translation_memory import TranslationMemory
from service.translation.translation import LONGEST_WAIT_SECONDS
from service.translation.translator import Translator


@dataclass
class ServiceContext:
    """Everything that the routes need; `composition.build_service` builds it."""

    translator: Translator
    library: ModelRegistry
    metrics: Metrics
    access: AccessControl
    glossaries: GlossaryStore
    suggestions: SuggestionStore
    memory: TranslationMemory
    documents: DocumentJobs
    live: LiveSessions
    draining: bool = False
    """True during the shutdown: running requests may finish; new ones are refused."""

    @property
    def ready(self) -> bool:
        return self.library.ready and not self.draining

    async def check_open(self, *, resumes: bool = False) -> None:
        """Raise `NotReady` before the first model is ready, and while the server is draining.

        It stays open while engines are replaced: the translation waits for them. A stream that `resumes` waits
        for the first models, too, because a browser's `EventSource` gives up for good on a 503.
        """
        if resumes and not self.draining:
            await self.library.wait_until_started(LONGEST_WAIT_SECONDS)
        if self.draining:
            raise NotReady("the server is shutting down")
        if not self.library.serving:
            raise NotReady(self.library.why_not_ready)

    def check_ready(self) -> None:
        """Raise `NotReady` with the reason if no engine answers now; for load balancers."""
        if self.draining:
            raise NotReady("the server is shutting down")
        if not self.ready:
            raise NotReady(self.library.why_not_ready)

    @contextmanager
    def choosing_model(self) -> Iterator[None]:
        """Raise `NotReady` for an unknown language while models that may have it are on their way."""
        try:
            yield
        except UnknownLanguage as error:
            if not self.library.started:
                raise NotReady(self.library.why_not_ready) from None
            if reason := self.library.why_not_now(error.given):
                raise NotReady(reason) from None
            raise


async def service_of(request: Request) -> ServiceContext:
    """Return the context of a request. Asynchronous, because `Depends` runs other functions in one of forty threads."""
    service = request.app.state.service
    assert isinstance(service, ServiceContext)
    return service


ServiceDependency = Annotated[ServiceContext, Depends(service_of)]
