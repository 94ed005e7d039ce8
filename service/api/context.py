"""The context that the routes of one application share, and the caller of a request, by its API key."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Final

import msgspec
from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from service.access.charges import Caller
from service.access.control import AccessControl
from service.api.request_body import JSON, check_declared_type, media_type, read_form
from service.documents.jobs import DocumentJobs
from service.errors import InvalidRequest, NotReady, UnknownLanguage
from service.live.sessions import LiveSessions
from service.observability.metrics import Metrics
from service.registry.registry import ModelRegistry
from service.stores.glossary_store import GlossaryStore
from service.stores.suggestion_store import SuggestionStore
from service.stores.translation_memory import TranslationMemory
from service.translation.translation import LONGEST_WAIT_SECONDS
from service.translation.translator import Translator

_SCHEMES: Final = frozenset({"bearer", "deepl-auth-key"})
_HEADERS: Final = ("X-Goog-Api-Key", "X-Api-Key")
_FIELDS: Final = ("api_key", "apiKey", "auth_key", "key", "token")
"""Fields of a URL or a form that hold a key: LibreTranslate's and its clients', DeepL's, Google's and DeepLX's."""


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


class _Body(msgspec.Struct):
    """The only fields of a JSON body that are decoded here; all others are skipped."""

    api_key: str | None = None
    apiKey: str | None = None
    auth_key: str | None = None
    key: str | None = None


async def caller_of(request: Request, service: ServiceDependency) -> Caller:
    """Identify the caller and count the request. Raises `KeyRequired`, `InvalidKey` and `RateLimited`."""
    key = await _key(request) if service.access.has_keys else None
    caller = await service.access.admit(key, address_of(request))
    if caller.key is not None:
        request.state.key_name = caller.key.name
    return caller


async def may_see_paths(request: Request, service: ServiceDependency) -> bool:
    """Return True if a response may name paths of the server; if keys are required, only to callers with one.

    Raises `RateLimited` after too many wrong keys.
    """
    if not service.access.key_required:
        return True
    return await service.access.knows(await _key(request), address_of(request))


CallerDependency = Annotated[Caller, Depends(caller_of)]


def owner_of(caller: Caller) -> str | None:
    """Return the owner of a caller's glossaries: its key. Callers without a key share theirs."""
    # By label: another key may get the name after this one is removed.
    return None if caller.key is None else caller.key.label


def address_of(request: HTTPConnection) -> str | None:
    return request.client.host if request.client else None


async def _key(request: Request) -> str | None:
    """Find the key in a header (DeepL, or a bearer token), in the URL or in the body (both LibreTranslate)."""
    return key_before_body(request) or await _key_in_body(request)


def key_before_body(request: HTTPConnection) -> str | None:
    """Find the key in the header or in the URL."""
    scheme, _, value = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() in _SCHEMES:
        return value.strip()
    if scheme and not value:
        return scheme  # clients of DeepLX send the key alone
    in_url = (request.query_params.get(field) for field in _FIELDS)
    in_headers = (request.headers.get(name) for name in _HEADERS)
    return next(filter(None, chain(in_url, in_headers)), None)


async def _key_in_body(request: Request) -> str | None:
    """Return the key of the body; the route reports other errors of the body.

    Raises `InvalidRequest` for JSON that is declared as a form: its key would not be found.
    """
    await check_declared_type(request)
    try:
        if media_type(request) == JSON:
            body = msgspec.json.decode(await request.body(), type=_Body)
            return body.api_key or body.apiKey or body.auth_key or body.key
        return key_in_form(await read_form(request))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, InvalidRequest):
        return None


def key_in_form(form: Mapping[str, object]) -> str | None:
    """Find the key among the fields of a form."""
    given = (form.get(field) for field in _FIELDS)
    return next((each for each in given if isinstance(each, str) and each), None)
