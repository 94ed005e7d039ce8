"""Uploaded documents: a form with a file becomes a job of the caller."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from fastapi import Depends, Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from service.access.charges import Caller
from service.api.context import ServiceContext, ServiceDependency, address_of, key_before_body, key_in_form
from service.api.openapi import body_of
from service.api.request_body import MULTIPART, RequestBody, check_charset, collected, media_type, validated
from service.api.translate import stored_glossary, unless_disconnected
from service.documents.document import open_document
from service.documents.jobs import BATCH_SECONDS, DocumentJob
from service.documents.paragraph import ReadOptions
from service.errors import InsufficientStorage, InvalidRequest, MissingField
from service.translation.options import TranslationOptions
from service.translation.translator import FieldNames

F = TypeVar("F", bound=RequestBody)

PATHS: Final = ("/documents", "/translate_file", "/v2/document")
"""Paths of uploads."""
FORM_BYTES: Final = 65_536
"""Limit for the bytes of a form besides its file."""
_FILE: Final[dict[str, Any]] = {"type": "string", "format": "binary", "description": "the document, with its name"}
_FIELDS: Final = 20
_LONGEST_NAME: Final = 200


class Uploaded(NamedTuple):
    """A form with a file, and its sender."""

    request: Request
    caller: Caller
    form: FormData
    place: ExitStack
    """Counts the document as received until it is a job."""

    def parse(self, model: type[F]) -> F:
        """Return the fields besides the file. Raises `InvalidRequest`."""
        texts = [(name, value) for name, value in self.form.multi_items() if isinstance(value, str) and name != "file"]
        return validated(model, lambda: model.model_validate(collected(texts)))

    @property
    def file(self) -> UploadFile:
        """The file. Raises `InvalidRequest`."""
        found = self.form.get("file")
        if not isinstance(found, UploadFile):
            raise MissingField("file", "field required: a file with its name")
        return found


class Wanted(NamedTuple):
    """The fields of a form about its document."""

    source: str | None
    options: ReadOptions
    """Options of the reader, with the target language in the caller's spelling, and no source language."""
    name: str | None = None
    glossary_id: str | None = None


def form_of(model: type[RequestBody]) -> dict[str, Any]:
    """Describe, for OpenAPI, a form with a file."""
    schema = body_of(model)["requestBody"]["content"][MULTIPART]["schema"]
    schema["properties"]["file"] = _FILE
    schema["required"] = [*schema.get("required", ()), "file"]
    return {"requestBody": {"required": True, "content": {MULTIPART: {"schema": schema}}}}


async def uploaded(request: Request, service: ServiceDependency) -> AsyncIterator[Uploaded]:
    """Identify the caller, before the file is read if the key comes first, count the document, and read the form."""
    address = address_of(request)
    key = key_before_body(request) if service.access.has_keys else None
    # The key may be in the form; without keys, the caller is an address.
    caller = await service.access.admit(key, address) if key or not service.access.has_keys else None
    with ExitStack() as place:
        place.enter_context(service.documents.receiving(caller.identity if caller is not None else address or ""))
        form = await _form(request)
        if caller is None:
            caller = await service.access.admit(key_in_form(form), address)
        if caller.key is not None:
            request.state.key_name = caller.key.name
        yield Uploaded(request, caller, form, place)


UploadDependency = Annotated[Uploaded, Depends(uploaded)]


async def _form(request: Request) -> FormData:
    if media_type(request) != MULTIPART:
        raise InvalidRequest("Content-Type", f"must be {MULTIPART}")
    check_charset(request)
    try:
        # A large file is kept on disk while it arrives; the size of the whole body is limited already.
        form = await request.form(max_files=_FIELDS, max_fields=_FIELDS, max_part_size=FORM_BYTES)
    except HTTPException as error:
        raise InvalidRequest("body", error.detail) from None
    except OSError:
        raise InsufficientStorage("documents") from None
    if sum(isinstance(value, UploadFile) for _, value in form.multi_items()) > 1:
        await form.close()
        raise InvalidRequest("file", "must be one file; the form has more")
    return form


async def start_job(service: ServiceContext, sent: Uploaded, wanted: Wanted, names: FieldNames) -> DocumentJob:
    """Check a document, charge its characters and queue it.

    Raises `InvalidRequest`, `TooLong`, `QueueFull`, the errors of access control, and `CallerLeft`, as the
    identifier could reach nobody.
    """
    await service.check_open()
    file, jobs = sent.file, service.documents
    name = _base_name(wanted.name or file.filename or "")
    with service.choosing_model():
        source, target = service.translator.direction(wanted.source, wanted.options.target, names)
    directory = jobs.new_directory()
    try:
        path = directory / "source"
        await asyncio.to_thread(_save, file, path)
        options = replace(wanted.options, source=source if wanted.source else "", target=target)
        document = await asyncio.to_thread(open_document, path, name, options, jobs.limits)
        count = await unless_disconnected(sent.request, jobs.count(document, name))
        source, target = service.translator.source_of(count.sample, wanted.source, wanted.options.target, names)
        glossaries = [wanted.glossary_id] if wanted.glossary_id else []
        glossary = await stored_glossary(service, sent.caller, glossaries, source, target)
        owner = sent.caller.identity
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(service.access.charged(sent.caller, count.characters, "file"))
            job = DocumentJob(
                owner=owner,
                document=document,
                name=name,
                source=source,
                target=target,
                characters=count.characters,
                options=TranslationOptions(
                    glossary=glossary, caller=owner, is_html=True, is_background=True, timeout_seconds=BATCH_SECONDS
                ),
                charge=stack.pop_all(),
            )
            jobs.submit(job)
            sent.place.close()
            return job
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _base_name(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2][-_LONGEST_NAME:]


def _save(file: UploadFile, path: Path) -> None:
    try:
        with path.open("wb") as sink:
            shutil.copyfileobj(file.file, sink)
    except OSError:
        raise InsufficientStorage("documents") from None
