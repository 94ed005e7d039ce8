"""The base of requests, and errors as responses."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from service.api.field_types import RequestBody


class Request(RequestBody):
    """Base of requests that refuse unknown fields and name them, but not a megabyte of them."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > (most := 2 * len(cls.model_fields)):
            raise PydanticCustomError("too_many_fields", f"more than {most} fields")
        return value


class ErrorResponse(BaseModel):
    """An error: a message for people and a stable code."""

    error: str = Field(examples=["q: field required"])
    code: str = Field(examples=["invalid_request"])
