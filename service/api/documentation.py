"""What FastAPI cannot know of the routes: errors, keys, the headers of every answer, the events of a stream."""

from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel

from service.streaming import EVENT_NAMES

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

_TRANSLATION_ERRORS: Final[dict[int | str, str]] = {
    413: "text, sentence or body over its limit",
    429: "too many requests waiting, or more than the caller's limits: try again after `Retry-After`",
    503: "starting or draining, or the file of the API keys cannot be used: try again after `Retry-After`",
    504: "deadline exceeded",
    # Its presence also keeps FastAPI from documenting a 422 that is never sent.
    "default": "any other error",
}

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


def translation_errors(model: type[BaseModel], own: dict[int | str, str]) -> dict[int | str, dict[str, Any]]:
    """The answers of routes that translate: their `own` ones, and those of all."""
    return {status: {"model": model, "description": text} for status, text in (own | _TRANSLATION_ERRORS).items()}


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
    keys: list[dict[str, list[str]]] = [{name: []} for name in _SCHEMES]
    security = keys if key_required else [{}, *keys]
    for operations in schema["paths"].values():
        for operation in operations.values():
            if "403" in operation["responses"]:
                operation["security"] = security
            for status, response in operation["responses"].items():
                response["headers"] = {"X-Request-ID": _reference("X-Request-ID")}
                if status in _RETRIED:
                    response["headers"]["Retry-After"] = _reference("Retry-After")


def _reference(header: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{header}"}
