"""The routes of documents: ours, LibreTranslate's and DeepL's."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Message, Receive, Scope, Send

from service.api.authentication import CallerDependency
from service.api.context import ServiceContext, ServiceDependency
from service.api.deepl.common import NAMES, deepl_errors
from service.api.document_schemas import (
    DeepLDocument,
    DeepLDocumentStatus,
    DeepLForm,
    DeepLKey,
    DocumentStatus,
    FileForm,
    TranslatedFile,
    form_of,
)
from service.api.openapi import CALLER_ERRORS, ErrorResponse, Responses, errors_of
from service.api.request_body import body_of, parse_body
from service.api.sse import encode
from service.api.translate import unless_disconnected
from service.api.uploads import FORM_BYTES, UploadDependency, start_job
from service.document_jobs.job import DocumentJob
from service.document_jobs.jobs import DocumentJobs
from service.errors import DocumentNotReady, UnknownDocument
from service.translation.translator import FieldNames

__all__ = ["DOWNLOADS", "FORM_BYTES", "UPLOADS", "router"]

router = APIRouter(tags=["documents"])

UPLOADS: Final = ("/documents", "/translate_file", "/v2/document")
"""Paths whose bodies hold a document."""
DOWNLOADS: Final = ("/documents/", "/download_file/")
"""Beginnings of paths whose GET may delete what it returns."""
_EVENT_STREAM: Final = "text/event-stream"
_PROGRESS_SECONDS: Final = 0.25
"""The least interval between two events of progress."""
_ERRORS: Final = errors_of(ErrorResponse, *CALLER_ERRORS, 400, 404, 500, 507)
_KNOWN_ERRORS: Final = errors_of(ErrorResponse, *CALLER_ERRORS, 400, 404)
_CONTENT: Final[Responses] = {
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

    A document whose state nobody requests is cancelled after ten minutes.
    """
    job = service.documents.find(document_id)
    if _EVENT_STREAM not in request.headers.get("accept", ""):
        return _status(job)
    return EventSourceResponse(
        _progress(job),
        headers={"Cache-Control": "no-cache"},
        ping=service.settings.keep_alive_seconds,
        ping_message_factory=lambda: ServerSentEvent(comment="keep-alive"),
    )


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
    responses={**errors_of(ErrorResponse, *CALLER_ERRORS, 400, 404, 409, 500, 504, 507), **_CONTENT},
)
async def result(document_id: str, service: ServiceDependency, caller: CallerDependency) -> Response:
    """Return the translation and delete the document."""
    return _download(service, service.documents.find(document_id))


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
    """Return the address of the translation. A client that disconnects before cancels it."""
    job = await start_job(service, sent, sent.parse(FileForm).wanted(), FieldNames())
    try:
        await unless_disconnected(request, _until_over(job))
        if job.error is not None:
            raise job.error
    except BaseException:
        await service.documents.delete(job)
        raise
    name = f"{job.id}.{job.request.document.format.name}"
    return TranslatedFile(translatedFileUrl=str(request.url_for("download_file", name=name)))


@router.get(
    "/download_file/{name}",
    summary="Download a translated document, once",
    response_class=FileResponse,
    responses={**errors_of(ErrorResponse, 404, 409, 500, 504, 507), **_CONTENT},
)
async def download_file(name: str, service: ServiceDependency) -> Response:
    """Return the translation and delete the document. The address is secret enough: no key is needed."""
    return _download(service, service.documents.find(name.partition(".")[0]))


@router.post(
    "/v2/document",
    summary="Translate a document in the background, as DeepL",
    responses=deepl_errors(400, 404, 456, 500, 507),
    openapi_extra=form_of(DeepLForm),
)
async def deepl_upload(service: ServiceDependency, sent: UploadDependency) -> DeepLDocument:
    wanted = sent.parse(DeepLForm).wanted(sent.file.filename or "")
    job = await start_job(service, sent, wanted, NAMES)
    return DeepLDocument(document_id=job.id, document_key=job.key)


@router.post(
    "/v2/document/{document_id}",
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
        seconds_remaining=None if job.is_over else job.seconds_left,
        billed_characters=job.request.characters if job.state == "done" else None,
        error_message=None if job.error is None else job.error.message,
    )


@router.post(
    "/v2/document/{document_id}/result",
    summary="Download a translated document, once",
    response_class=FileResponse,
    responses={**deepl_errors(400, 404, 409, 500, 504, 507), **_CONTENT},
    openapi_extra=body_of(DeepLKey),
)
async def deepl_result(
    document_id: str, request: Request, service: ServiceDependency, caller: CallerDependency
) -> Response:
    return _download(service, await _deepl_job(document_id, request, service))


async def _deepl_job(document_id: str, request: Request, service: ServiceContext) -> DocumentJob:
    body = await parse_body(request, DeepLKey)
    job = service.documents.find(document_id)
    if not secrets.compare_digest(body.document_key.encode(), job.key.encode()):
        raise UnknownDocument
    return job


def _download(service: ServiceContext, job: DocumentJob) -> Response:
    if job.error is not None:
        raise job.error
    if not job.is_over:
        raise DocumentNotReady
    found = job.request.document.format
    name = f"{job.request.name.rpartition('.')[0]}.{job.request.target}.{found.name}"
    return _Download(service.documents, job, media_type=found.media_type, filename=name)


class _Download(FileResponse):
    """A translated document, deleted before its last bytes go out: who has the whole file finds it gone.

    A download that was cut off, or that asked for a range of bytes, deletes nothing.
    """

    def __init__(self, documents: DocumentJobs, job: DocumentJob, *, media_type: str, filename: str) -> None:
        # A page of somebody's is not to be run as a page of this server, nor a text taken for one.
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
        name=job.request.name,
        source=job.request.source,
        target=job.request.target,
        characters=job.request.characters,
        characters_done=job.characters_done,
        seconds_left=None if job.is_over else job.seconds_left,
        error=None if job.error is None else job.error.message,
        code=None if job.error is None else job.error.code,
    )
