"""Authentication, as a dependency of the routes: finds the API key of a request and identifies its caller."""

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Final

import msgspec
from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from service.access.charges import Caller
from service.api.context import ServiceDependency
from service.api.request_body import JSON, check_declared_type, media_type, read_form
from service.errors import InvalidRequest

_SCHEMES: Final = frozenset({"bearer", "deepl-auth-key"})
_HEADERS: Final = ("X-Goog-Api-Key", "X-Api-Key")
_FIELDS: Final = ("api_key", "apiKey", "auth_key", "key", "token")
"""Fields of a URL or a form that hold a key: LibreTranslate's and its clients', DeepL's, Google's and DeepLX's."""


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
