"""The conversion of exceptions to responses: `{"error": ..., "code": ...}` with a status. No other module does it."""

import difflib
import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from service.errors import (
    CallerLeft,
    InvalidKey,
    InvalidRequest,
    KeyRequired,
    MissingField,
    QuotaExceeded,
    ServiceError,
    UnknownLanguage,
    UnsupportedFormat,
)

# A response describes a few problems; it does not repeat a megabyte of wrong fields.
_MOST_PROBLEMS: Final = 5
_LONGEST_NAME: Final = 64
_NAME_ITSELF: Final = "[key]"
"""The last step of Pydantic's location of an entry's name."""
_DEEPL_STATUSES: Final[dict[type[ServiceError], int]] = {KeyRequired: 403, QuotaExceeded: 456}
_OPENAI_STATUSES: Final[dict[type[ServiceError], int]] = {KeyRequired: 401, InvalidKey: 401}
_OPENAI_CODES: Final = {401: "invalid_api_key"}
_LIBRETRANSLATE: Final = frozenset({"/translate", "/translate_file", "/detect", "/suggest"})
_TRANSLATE: Final = "/translate"
_CLIENT_CLOSED_REQUEST: Final = 499  # nginx's convention; no standard status fits


def install(app: FastAPI) -> None:
    """Register the handlers on `app`."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _caller_left)
    app.add_exception_handler(CallerLeft, _caller_left)


def answer(request: Request, error: ServiceError) -> JSONResponse:
    """Build the response for `error`; its code becomes the request's outcome."""
    request.state.outcome = error.code
    seconds = error.retry_after_seconds
    headers = {} if seconds is None else {"Retry-After": str(seconds)}
    own = _DEEPL_STATUSES if _is_deepl(request) else _OPENAI_STATUSES if _is_openai(request) else {}
    status = own.get(type(error), error.status)
    return JSONResponse(
        _body(request, error.message, error.code, status) | _as_libretranslate(request, error), status, headers
    )


def _as_libretranslate(request: Request, error: ServiceError) -> dict[str, str]:
    """Return LibreTranslate's words, beside ours, for the errors whose words its clients compare."""
    match error:
        case MissingField(field=field):
            words = f"Invalid request: missing {field} parameter"
        case UnknownLanguage(given=given, field=field):
            words = f"{given} is not supported"
        case UnsupportedFormat(field=field):
            words = "Invalid request: file format not supported"
        case _:
            return {}
    return {"error": words, "field": field, "detail": error.message} if request.url.path in _LIBRETRANSLATE else {}


def _body(request: Request, message: str, code: str, status: int) -> dict[str, Any]:
    """Build the body in the shape of the path's API; by default an `error` and its code."""
    path = request.url.path
    if _is_deepl(request):
        return {"message": message}
    if path.startswith("/compat/deeplx/"):
        return {"code": status, "message": message}
    if path.startswith("/compat/google/"):
        return {"error": {"code": status, "message": message, "status": code}}
    if _is_openai(request):
        code = _OPENAI_CODES.get(status, code)
        return {"error": {"message": message, "type": code, "param": None, "code": code}}
    return {"error": message, "code": code}


def _is_deepl(request: Request) -> bool:
    return request.url.path.split("/")[1] in ("v2", "v3")


def _is_openai(request: Request) -> bool:
    return request.url.path.startswith("/v1/")


def invalid_request(
    errors: Iterable[Mapping[str, Any]], nameless: str = "body", fields: Collection[str] = ()
) -> InvalidRequest:
    """Combine Pydantic's problems into one error; each has the name of its field, `nameless` for the whole body.

    The message about a field that does not exist suggests one of `fields`.
    """
    by_field: dict[str, str] = {}
    missing: set[str] = set()
    for error in errors:
        place, is_name = error["loc"], error["loc"][-1:] == (_NAME_ITSELF,)
        field = ".".join(map(str, place[:-2] if is_name else place))[:_LONGEST_NAME] or nameless
        problem = _no_such_field(field, fields) if error["type"] == "extra_forbidden" else str(error["msg"])
        problem = f"name of an entry: {problem}" if is_name else problem
        by_field.setdefault(field, problem[:1].lower() + problem[1:])
        if error["type"] == "missing":
            missing.add(field)
    (field, problem), *others = itertools.islice(by_field.items(), _MOST_PROBLEMS)
    rest = "".join(f"; {name}: {text}" for name, text in others)
    return (MissingField if field in missing else InvalidRequest)(field, problem + rest)


def _no_such_field(name: str, fields: Collection[str]) -> str:
    return "no such field" + "".join(f"; did you mean {each}?" for each in difflib.get_close_matches(name, fields, n=1))


async def _service_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ServiceError)
    return answer(request, error)


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # FastAPI's location begins with the URL or a header, in which the field is.
    found = ({**each, "loc": each["loc"][1:]} for each in error.errors())
    described = _operations(request).get(request.method.lower(), {}).get("parameters", ())
    return answer(request, invalid_request(found, "URL", [each["name"] for each in described]))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    request.state.outcome = "invalid_request"
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
    headers, detail = dict(error.headers or {}), error.detail
    if error.status_code == 405 and (allowed := _allowed(request)):
        headers["Allow"] = allowed
        detail += f": use {allowed}"
        if request.url.path == _TRANSLATE:
            detail += f"; for GET there is {_TRANSLATE}/stream"
    return JSONResponse(_body(request, detail, code, error.status_code), error.status_code, headers)


def _allowed(request: Request) -> str:
    """List all methods of a documented path, which may have several routes; "" for other paths, such as files."""
    return ", ".join(sorted(method.upper() for method in _operations(request)))


def _operations(request: Request) -> dict[str, Any]:
    """Return the descriptions of the request's path in `/openapi.json`, by method."""
    path = getattr(request.scope.get("route"), "path", "")
    operations: dict[str, Any] = request.app.openapi()["paths"].get(path, {})
    return operations


async def _caller_left(request: Request, error: Exception) -> Response:
    """Handle a client that disconnected while it sent its body, or before its response."""
    request.state.outcome = "cancelled"
    return Response(status_code=_CLIENT_CLOSED_REQUEST)  # the client has left
