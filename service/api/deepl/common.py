"""Field names and error responses of all routes of DeepL."""

from typing import Final

from pydantic import BaseModel, Field

from service.api.openapi import CALLER_ERRORS, Responses, errors_of
from service.translation.translator import FieldNames

NAMES: Final = FieldNames(
    text="text",
    source="source_lang",
    target="target_lang",
    automatic=(),
    spelled=str.upper,
)


class DeepLError(BaseModel):
    message: str = Field(examples=["target_lang: field required"])


def deepl_errors(*statuses: int) -> Responses:
    """Describe the errors of a route: the common ones, and `statuses`."""
    own = {403: "no API key where one is required, or a wrong one"}
    return errors_of(DeepLError, *CALLER_ERRORS, *statuses, own=own)
