"""Additions to FastAPI's description of the API: errors, keys, response headers, the events of a stream."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel, Field

from service.api.request_body import FORM, JSON, MULTIPART, RequestBody
from service.api.sse import EVENT_NAMES

EVENTS: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "id": {
            "type": "string",
            "pattern": "^[0-9]+(-[0-9A-Za-z_-]{24})?$",
            "description": "number of the event, and the signature of the stream where characters are counted; "
            "`Last-Event-ID` resumes after it. `error` and `loading` have none",
        },
        "event": {"enum": [*EVENT_NAMES.values(), "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "example": {"id": "1", "event": "token", "data": '{"segment":0,"index":0,"text":"Je","logprob":-0.08}'},
}
"""The schema of an event. The texts of all `token` events, joined, are the translation."""

Responses = dict[int | str, dict[str, Any]]


class ErrorResponse(BaseModel):
    """An error: a message for people and a stable code."""

    error: str = Field(examples=["q: field required"])
    code: str = Field(examples=["invalid_request"])


_MEANINGS: Final[Mapping[int, str]] = {
    400: "bad input, with the name of the field",
    401: "missing or wrong API key",
    403: "wrong API key",
    404: "no glossary of the caller has this id or name, no document or session this id, or no model this name",
    405: "method not allowed for this path",
    409: "the document is still being translated",
    413: "text, sentence or body over its limit",
    429: "queue full, or a limit of the caller exceeded: retry after `Retry-After`",
    456: "monthly quota of the key exceeded",
    500: "engine failed, or a stored glossary is damaged",
    503: "starting, draining, no usable model, or the key file cannot be read or written",
    504: "deadline exceeded",
    507: "glossaries or documents cannot be written: disk full or read-only",
}

CALLER_ERRORS: Final = (403, 413, 429, 503)
"""Errors of all routes that identify their caller; 413 because the key may be in a body."""
BAD_INPUT: Final = {400: "bad input, with the name of the field; or a missing API key"}
"""The meaning of 400 on routes of LibreTranslate, whose clients expect it for a missing key."""

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
        "description": "id of the request in the log: from the request's own header of this name, or a new one",
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "in seconds", "schema": {"type": "integer", "minimum": 1}},
}
_NULL: Final = {"type": "null"}
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples"})
_RETRIED: Final = ("429", "456", "503")
# FastAPI's default status for bad input.
_NEVER_SENT: Final = "422"
_NEVER_SENT_MODELS: Final = ("HTTPValidationError", "ValidationError")


def errors_of(model: type[BaseModel], *statuses: int, own: Mapping[int, str] = MappingProxyType({})) -> Responses:
    """Describe the errors of a route, with the schema `model`; `own` descriptions replace the common ones."""
    meanings = {**_MEANINGS, **own}
    return {status: {"model": model, "description": meanings[status]} for status in sorted({*statuses, 405})}


def body_of(model: type[RequestBody]) -> dict[str, Any]:
    """Describe, for OpenAPI, the body of a route that calls `parse_body`."""
    json, form = _with_nulls(model.model_json_schema()), _as_form(model.model_json_schema())
    content = {JSON: {"schema": json}, FORM: {"schema": form}, MULTIPART: {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}


def _with_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """Allow null for each field that may be absent, as `RequestBody` does."""
    for name, field in schema["properties"].items():
        if name not in schema.get("required", ()):
            own = {key: field.pop(key) for key in [*field] if key not in _ANNOTATIONS}
            choices = own["anyOf"] if own.keys() == {"anyOf"} else [own]
            field["anyOf"] = [*(each for each in choices if each != _NULL), _NULL]
    return schema


def _as_form(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert the schema of a JSON body to the schema of a form, in which fields are absent instead of null."""
    for field in schema["properties"].values():
        if "anyOf" in field:
            choices = [choice for choice in field.pop("anyOf") if choice != _NULL]
            field |= choices[0] if len(choices) == 1 else {"anyOf": choices}
    return schema


def install(app: FastAPI, *, key_required: bool) -> None:
    """Complete the OpenAPI document of `app`."""
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
