"""The wire types of documents: forms with a file, and states."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.api.field_types import ApiKey, LanguageCode, OtherApiKey, RequestBody
from service.api.request_body import MULTIPART, body_of
from service.api.uploads import Wanted
from service.errors import InvalidRequest

_FILE: Final[dict[str, Any]] = {"type": "string", "format": "binary", "description": "the document, with its name"}


class FileForm(RequestBody):
    """The form of LibreTranslate with additional fields. Unknown fields are refused, not ignored."""

    model_config = ConfigDict(extra="forbid")

    source: LanguageCode = Field(default="auto", description="as in `/translate`; auto detects one for the document")
    target: LanguageCode = Field(description="as in `/translate`", examples=["fr"])
    columns: str = Field(
        default="", max_length=2_000, description="names or numbers of the columns of a csv or tsv, with commas between"
    )
    glossary_id: str | None = Field(default=None, max_length=200, description="id or name of a stored glossary")
    api_key: ApiKey = None
    apiKey: OtherApiKey = None

    def wanted(self) -> Wanted:
        """Return what the form says about its document. Raises `InvalidRequest`."""
        if self.glossary_id and self.source.lower() == "auto":
            raise InvalidRequest("source", "must be given with glossary_id")
        columns = tuple(each.strip() for each in self.columns.split(",") if each.strip())
        source = None if self.source.lower() == "auto" else self.source
        return Wanted(source, self.target, columns=columns, glossary_id=self.glossary_id)


class DeepLForm(RequestBody):
    """The form of DeepL. Unknown fields are ignored, as DeepL does."""

    model_config = ConfigDict(extra="ignore")

    target_lang: str = Field(min_length=2, max_length=16, examples=["FR"])
    source_lang: str | None = Field(default=None, max_length=16, examples=["EN"])
    filename: str | None = Field(default=None, max_length=200)
    output_format: str | None = Field(default=None, max_length=16, description="only that of the document")
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"
    glossary_id: str | None = Field(default=None, max_length=200, description="only with source_lang")

    def wanted(self, file_name: str) -> Wanted:
        """Return what the form says about its document. Raises `InvalidRequest`."""
        name = self.filename or file_name
        if self.output_format and self.output_format.lower() != name.rpartition(".")[2].lower():
            raise InvalidRequest("output_format", "must be the format of the document")
        if self.formality in ("more", "less"):
            raise InvalidRequest("formality", "is not available for any language; prefer_more and prefer_less are")
        if self.glossary_id and not self.source_lang:
            raise InvalidRequest("source_lang", "must be given with glossary_id")
        return Wanted(self.source_lang or None, self.target_lang, name, glossary_id=self.glossary_id)


class DeepLKey(RequestBody):
    model_config = ConfigDict(extra="ignore")

    document_key: str = Field(max_length=64, description="the key that the upload returned")


class DocumentStatus(BaseModel):
    """The state of a document."""

    id: str
    state: Literal["queued", "translating", "done", "error"]
    name: str = Field(examples=["report.docx"])
    source: str = Field(examples=["en"])
    target: str = Field(examples=["fr"])
    characters: int = Field(description="characters of text", examples=[12_000])
    characters_done: int = Field(examples=[4_000])
    seconds_left: int | None = Field(default=None, description="an estimate, once there is one")
    error: str | None = None
    code: str | None = Field(default=None, description="the code of the error")


class TranslatedFile(BaseModel):
    translatedFileUrl: str = Field(description="works once, and for an hour", examples=["http://host/download_file/x"])


class DeepLDocument(BaseModel):
    document_id: str
    document_key: str


class DeepLDocumentStatus(BaseModel):
    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


def form_of(model: type[RequestBody]) -> dict[str, Any]:
    """Describe, for OpenAPI, a form with a file."""
    schema = body_of(model)["requestBody"]["content"][MULTIPART]["schema"]
    schema["properties"]["file"] = _FILE
    schema["required"] = [*schema.get("required", ()), "file"]
    return {"requestBody": {"required": True, "content": {MULTIPART: {"schema": schema}}}}
