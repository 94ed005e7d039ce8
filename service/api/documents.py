"""The routes of documents: ours and LibreTranslate's."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from sse_starlette import EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

from service.api.context import CallerDependency, ServiceContext, ServiceDependency
from service.api.openapi import CALLER_ERRORS, ErrorResponse, Responses, errors_of
from service.api.request_body import ApiKey, LanguageCode, OtherApiKey, RequestBody
from service.api.sse import encode, stream_options
from service.api.translate import unless_disconnected
from service.api.uploads import UploadDependency, Wanted, form_of, start_job
from service.documents.jobs import DocumentJob, DocumentJobs
from service.documents.paragraph import ReadOptions
from service.documents.report import Report
from service.errors import DocumentNotReady, InvalidRequest
from service.translation.translator import FieldNames

router = APIRouter(tags=["documents"])

DOWNLOADS: Final = ("/documents/", "/download_file/")
"""Beginnings of paths whose GET may delete the document that it returns."""
_EVENT_STREAM: Final = "text/event-stream"
_PROGRESS_SECONDS: Final = 0.25
"""The least interval between two events of progress."""
_ERRORS: Final = errors_of(ErrorResponse, *CALLER_ERRORS, 400, 404, 500, 507)
_KNOWN_ERRORS: Final = errors_of(ErrorResponse, *CALLER_ERRORS, 400, 404)
DOCUMENT_CONTENT: Final[Responses] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "description": "the translated document",
    }
}
_PROGRESS: Final[Responses] = {
    200: {
        "content": {_EVENT_STREAM: {"schema": {"type": "string"}}},
        "description": "the state, or events `progress` whose data is the state, the last one when it is final",
    }
}


def _joined(value: object) -> object:
    """Join the values of a field that was sent several times."""
    return ",".join(value) if isinstance(value, list) and value else value


class FileForm(RequestBody):
    """The form of LibreTranslate with additional fields. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")

    source: LanguageCode = Field(default="auto", description="as in `/translate`; auto detects one for the document")
    target: LanguageCode = Field(description="as in `/translate`", examples=["fr"])
    columns: Annotated[str, BeforeValidator(_joined)] = Field(
        default="",
        max_length=2_000,
        description="names or numbers of the columns of a csv or tsv, with commas between, or a field for each",
    )
    output_format: str = Field(
        default="", max_length=16, description="for a format that cannot be written, such as pdf: docx or md"
    )
    fuzzy: bool = Field(default=True, description="mark new translations in a PO file as fuzzy")
    glossary_id: str | None = Field(default=None, max_length=200, description="id or name of a stored glossary")
    api_key: ApiKey = None
    apiKey: OtherApiKey = None

    def wanted(self) -> Wanted:
        """Return the fields about the document. Raises `InvalidRequest`."""
        if self.glossary_id and self.source.lower() == "auto":
            raise InvalidRequest("source", "must be given with glossary_id")
        columns = tuple(each.strip() for each in self.columns.split(",") if each.strip())
        source = None if self.source.lower() == "auto" else self.source
        output_format = self.output_format.lower()
        options = ReadOptions(target=self.target, columns=columns, output_format=output_format, marks_fuzzy=self.fuzzy)
        return Wanted(source, options, glossary_id=self.glossary_id)


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
    warnings: list[str] = Field(default=[], description="what is missing, such as pages that are only pictures")
    report: Report | None = Field(default=None, description="what happened to the texts, once the state is done")
    summary: list[str] = Field(default=[], description="the report in words", examples=[["12 texts translated"]])


class TranslatedFile(BaseModel):
    translatedFileUrl: str = Field(description="works once, and for an hour", examples=["http://host/download_file/x"])


@router.post(
    "/documents",
    summary="Translate a document in the background",
    status_code=202,
    responses=_ERRORS,
    openapi_extra=form_of(FileForm),
)
async def create(service: ServiceDependency, sent: UploadDependency) -> DocumentStatus:
    """Queue a document. Its state is at `GET /documents/{id}`, its translation at `GET /documents/{id}/result`."""
    return _status(await start_job(service, sent, sent.parse(FileForm).wanted(), FieldNames()))


@router.get(
    "/documents/{document_id}",
    summary="The progress of a document",
    response_model=DocumentStatus,
    responses={**_KNOWN_ERRORS, **_PROGRESS},
)
async def progress(
    document_id: str, request: Request, service: ServiceDependency, caller: CallerDependency
) -> DocumentStatus | Response:
    """Return the state, or follow it by server-sent events if the client accepts `text/event-stream`.

    A document is cancelled if no client requests its state for ten minutes.
    """
    job = service.documents.find(document_id)
    if _EVENT_STREAM not in request.headers.get("accept", ""):
        return _status(job)
    return EventSourceResponse(_progress(job), **stream_options())


async def _progress(job: DocumentJob) -> AsyncIterator[bytes]:
    number = 0
    with job.wanted():
        while True:
            is_over = job.is_over
            yield encode(number, "progress", _status(job).model_dump(exclude_none=True))
            if is_over:
                return
            number += 1
            await job.wait_for_change()
            await asyncio.sleep(_PROGRESS_SECONDS)


@router.get(
    "/documents/{document_id}/result",
    summary="Download a translated document, once",
    response_class=FileResponse,
    responses={**errors_of(ErrorResponse, *CALLER_ERRORS, 400, 404, 409, 500, 504, 507), **DOCUMENT_CONTENT},
)
async def result(document_id: str, service: ServiceDependency, caller: CallerDependency) -> Response:
    """Return the translation and delete the document."""
    return download(service, service.documents.find(document_id))


@router.delete(
    "/documents/{document_id}", summary="Cancel or delete a document", status_code=204, responses=_KNOWN_ERRORS
)
async def delete(document_id: str, service: ServiceDependency, caller: CallerDependency) -> None:
    await service.documents.delete(service.documents.find(document_id))


@router.post(
    "/translate_file",
    summary="Translate a document and wait for it, as LibreTranslate",
    responses=errors_of(ErrorResponse, *CALLER_ERRORS, 400, 404, 500, 504, 507),
    openapi_extra=form_of(FileForm),
)
async def translate_file(request: Request, service: ServiceDependency, sent: UploadDependency) -> TranslatedFile:
    """Return the address of the translation. A client that disconnects earlier cancels it."""
    job = await start_job(service, sent, sent.parse(FileForm).wanted(), FieldNames())
    try:
        await unless_disconnected(request, _until_over(job))
        if job.error is not None:
            raise job.error
    except BaseException:
        await service.documents.delete(job)
        raise
    name = f"{job.id}.{job.document.result_format.name}"
    return TranslatedFile(translatedFileUrl=str(request.url_for("download_file", name=name)))


@router.get(
    "/download_file/{name}",
    summary="Download a translated document, once",
    response_class=FileResponse,
    responses={**errors_of(ErrorResponse, 404, 409, 500, 504, 507), **DOCUMENT_CONTENT},
)
async def download_file(name: str, service: ServiceDependency) -> Response:
    """Return the translation and delete the document. The address is secret enough to need no key."""
    return download(service, service.documents.find(name.partition(".")[0]))


def download(service: ServiceContext, job: DocumentJob) -> Response:
    if job.error is not None:
        raise job.error
    if not job.is_over:
        raise DocumentNotReady
    found = job.document.result_format
    name = f"{job.name.rpartition('.')[0]}.{job.target}.{found.name}"
    return _Download(service.documents, job, media_type=found.media_type, filename=name)


class _Download(FileResponse):
    """A translated document, deleted before its last bytes go out, so that it is gone once a client has the whole file.

    A download of a range of bytes, or one that was cut off, deletes nothing.
    """

    def __init__(self, documents: DocumentJobs, job: DocumentJob, *, media_type: str, filename: str) -> None:
        # Browsers must run neither a caller's page as a page of this server, nor a text as a page.
        headers = {"X-Content-Type-Options": "nosniff"}
        super().__init__(job.result, headers=headers, media_type=media_type, filename=filename)
        self._documents = documents
        self._job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_whole = False

        async def send_after_deletion(message: Message) -> None:
            nonlocal is_whole
            if message["type"] == "http.response.start":
                is_whole = message["status"] == 200
            elif is_whole and not message.get("more_body", False):
                await self._documents.delete(self._job)
            await send(message)

        await super().__call__(scope, receive, send_after_deletion)


async def _until_over(job: DocumentJob) -> None:
    with job.wanted():
        while not job.is_over:
            await job.wait_for_change()


def _status(job: DocumentJob) -> DocumentStatus:
    return DocumentStatus(
        id=job.id,
        state=job.state,
        name=job.name,
        source=job.source,
        target=job.target,
        characters=job.characters,
        characters_done=job.characters_done,
        seconds_left=job.seconds_left,
        error=None if job.error is None else job.error.message,
        code=None if job.error is None else job.error.code,
        warnings=[] if job.report is None else job.report.warnings,
        report=job.report,
        summary=[] if job.report is None else job.report.in_words(),
    )
