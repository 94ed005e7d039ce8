"""DeepL's routes of documents."""

import secrets
from typing import Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from service.api.context import CallerDependency, ServiceContext, ServiceDependency
from service.api.deepl.translate import NAMES, deepl_errors
from service.api.documents import DOCUMENT_CONTENT, download
from service.api.openapi import body_of
from service.api.request_body import RequestBody, parse_body
from service.api.uploads import UploadDependency, Wanted, form_of, start_job
from service.documents.jobs import DocumentJob
from service.documents.paragraph import ReadOptions
from service.errors import InvalidRequest, UnknownDocument

router = APIRouter(prefix="/v2", tags=["documents"])


class DeepLForm(RequestBody):
    """The form of DeepL. Unknown fields are ignored, as DeepL does."""

    model_config = ConfigDict(extra="ignore")

    target_lang: str = Field(min_length=2, max_length=16, examples=["FR"])
    source_lang: str | None = Field(default=None, max_length=16, examples=["EN"])
    filename: str | None = Field(default=None, max_length=200)
    output_format: str | None = Field(
        default=None, max_length=16, description="of a pdf docx or md, else that of the document"
    )
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"
    glossary_id: str | None = Field(default=None, max_length=200, description="only with source_lang")

    def wanted(self, file_name: str) -> Wanted:
        """Return the fields about the document. Raises `InvalidRequest`."""
        name = self.filename or file_name
        if "." not in name:
            # A file object without a name is sent as "file", whatever `filename` the client was given for it.
            problem = f"{name[:64]!r} has no extension, which tells the format; DeepL's client for Python sends"
            raise InvalidRequest("filename", f"{problem} `filename` only with str and bytes")
        if self.formality in ("more", "less"):
            raise InvalidRequest("formality", "is not available for any language; prefer_more and prefer_less are")
        if self.glossary_id and not self.source_lang:
            raise InvalidRequest("source_lang", "must be given with glossary_id")
        options = ReadOptions(target=self.target_lang, output_format=(self.output_format or "").lower())
        return Wanted(self.source_lang or None, options, name, self.glossary_id)


class DeepLKey(RequestBody):
    model_config = ConfigDict(extra="ignore")

    document_key: str = Field(max_length=64, description="the key that the upload returned")


class DeepLDocument(BaseModel):
    document_id: str
    document_key: str


class DeepLDocumentStatus(BaseModel):
    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


@router.post(
    "/document",
    summary="Translate a document in the background, as DeepL",
    responses=deepl_errors(400, 404, 456, 500, 507),
    openapi_extra=form_of(DeepLForm),
)
async def deepl_upload(service: ServiceDependency, sent: UploadDependency) -> DeepLDocument:
    wanted = sent.parse(DeepLForm).wanted(sent.file.filename or "")
    job = await start_job(service, sent, wanted, NAMES)
    return DeepLDocument(document_id=job.id, document_key=job.key)


@router.post(
    "/document/{document_id}",
    summary="The state of a document",
    responses=deepl_errors(400, 404),
    response_model_exclude_none=True,
    openapi_extra=body_of(DeepLKey),
)
async def deepl_status(
    document_id: str, request: Request, service: ServiceDependency, caller: CallerDependency
) -> DeepLDocumentStatus:
    job = await _deepl_job(document_id, request, service)
    return DeepLDocumentStatus(
        document_id=job.id,
        status=job.state,
        seconds_remaining=job.seconds_left,
        billed_characters=job.characters if job.state == "done" else None,
        error_message=None if job.error is None else job.error.message,
    )


@router.post(
    "/document/{document_id}/result",
    summary="Download a translated document, once",
    response_class=FileResponse,
    responses={**deepl_errors(400, 404, 409, 500, 504, 507), **DOCUMENT_CONTENT},
    openapi_extra=body_of(DeepLKey),
)
async def deepl_result(
    document_id: str, request: Request, service: ServiceDependency, caller: CallerDependency
) -> Response:
    return download(service, await _deepl_job(document_id, request, service))


async def _deepl_job(document_id: str, request: Request, service: ServiceContext) -> DocumentJob:
    body = await parse_body(request, DeepLKey)
    job = service.documents.find(document_id)
    if not secrets.compare_digest(body.document_key.encode(), job.key.encode()):
        raise UnknownDocument
    return job
