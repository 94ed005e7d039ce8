"""What FastAPI cannot know of the routes: errors, keys, the headers of every answer, the events of a stream."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel

from service.api.sse import EVENT_NAMES

EVENTS: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "id": {
            "type": "string",
            "pattern": "^[0-9]+$",
            "description": "its number; `Last-Event-ID` resumes after it. An `error` has none",
        },
        "event": {"enum": [*EVENT_NAMES.values(), "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "example": {"id": "1", "event": "token", "data": '{"segment":0,"index":0,"text":"Je","logprob":-0.08}'},
}
"""One event. Of `token` events the texts, put together, are the translation."""

Responses = dict[int | str, dict[str, Any]]

_MEANINGS: Final[Mapping[int, str]] = {
    400: "bad input; names the field",
    403: "wrong API key",
    404: "none of the caller's glossaries has that id or name",
    405: "the path has no such method",
    413: "text, sentence or body over its limit",
    429: "too many requests waiting, or more than the caller's limits: try again after `Retry-After`",
    456: "the key's characters of the month are used up",
    500: "the engine has failed, or the file of a glossary is damaged",
    503: "starting, draining or without a model that can be used, or the file of the keys cannot be read or written",
    504: "deadline exceeded",
    507: "the disk of the glossaries is full, or cannot be written",
}

CALLER_ERRORS: Final = (403, 413, 429, 503)
"""Of all routes that ask who calls: a key may be in a body, too."""

_SCHEMES: Final[dict[str, Any]] = {
    "Bearer": {"type": "http", "scheme": "bearer"},
    "DeepL": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`DeepL-Auth-Key KEY`, as DeepL's clients send it",
    },
    "LibreTranslate": {
        "type": "apiKey",
        "in": "query",
        "name": "api_key",
        "description": "or the field `api_key` of a JSON body or a form, as LibreTranslate's clients send it",
    },
}
_HEADERS: Final[dict[str, Any]] = {
    "X-Request-ID": {
        "description": "the request's id in the log: the one that it brought in a header of this name, or a new one",
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "in seconds", "schema": {"type": "integer", "minimum": 1}},
}
_RETRIED: Final = ("429", "456", "503")
# What FastAPI answers to bad input, where nobody sees to it.
_NEVER_SENT: Final = "422"
_NEVER_SENT_MODELS: Final = ("HTTPValidationError", "ValidationError")


def errors_of(model: type[BaseModel], *statuses: int, own: Mapping[int, str] = MappingProxyType({})) -> Responses:
    """Of a route that answers errors as `model`: those `statuses`, and what each means, `own` words first."""
    meanings = {**_MEANINGS, **own}
    return {status: {"model": model, "description": meanings[status]} for status in sorted({*statuses, 405})}


def install(app: FastAPI, *, key_required: bool) -> None:
    """Complete what `app` says of itself."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        schema = plain()
        if "headers" not in schema["components"]:
            _complete(schema, key_required)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation says


def _complete(schema: dict[str, Any], key_required: bool) -> None:
    schema["components"] |= {"securitySchemes": _SCHEMES, "headers": _HEADERS}
    for model in _NEVER_SENT_MODELS:
        schema["components"]["schemas"].pop(model, None)
    keys: list[dict[str, list[str]]] = [{name: []} for name in _SCHEMES]
    security = keys if key_required else [{}, *keys]
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop(_NEVER_SENT, None)
            if "403" in operation["responses"]:
                operation["security"] = security
            for status, response in operation["responses"].items():
                response["headers"] = {"X-Request-ID": _reference("X-Request-ID")}
                if status in _RETRIED:
                    response["headers"]["Retry-After"] = _reference("Retry-After")


def _reference(header: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{header}"}
