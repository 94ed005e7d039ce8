"""The documents of one server: queued, translated in the background, kept until they are downloaded."""

import asyncio
import logging
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from service.documents.document import Document
from service.documents.limits import DocumentLimits
from service.documents.paragraph import Batch
from service.documents.reading import Counted, Order, Written
from service.documents.reading_process import reading
from service.documents.report import Report
from service.documents.workplace import workplace
from service.errors import InsufficientStorage, NotReady, QueueFull, ServiceError, UnknownDocument, is_error
from service.translation.options import TranslationOptions
from service.translation.translator import Translator

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 2
"""Documents that are translated at once; the others wait."""
_SHARE: Final = 4
BATCH_SECONDS: Final = 600.0
"""The time for each request of a document."""
_UNWANTED_SECONDS: Final = 600.0
"""A translation stops if no client requests the state of its document for so long."""
_EXPIRY_SECONDS: Final = 3600.0
"""A translated document is deleted if no client downloads it for so long."""
_SWEEP_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5

State = Literal["queued", "translating", "done", "error"]


@dataclass(eq=False, kw_only=True)
class DocumentJob:
    """A document in its own directory, and everything that its translation needs.

    `state` is final if it is `done` or `error`.
    """

    owner: str
    document: Document
    name: str
    source: str
    target: str
    characters: int
    options: TranslationOptions
    charge: AbstractAsyncContextManager[object]
    """A context that was entered; the job leaves it, with the error if there is one."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    state: State = "queued"
    error: ServiceError | None = None
    report: Report | None = None
    """Counts of the texts by what became of them; there is one once the state is `done`."""
    characters_done: int = 0
    started_at: float | None = None
    wanted_at: float = field(default_factory=time.monotonic)
    ended_at: float | None = None
    readers: int = 0
    """The number of clients that wait for the document or follow its progress; with a reader, it is wanted."""
    task: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def result(self) -> Path:
        return self.document.path.with_name("result")

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "error")

    @property
    def seconds_left(self) -> int | None:
        """An estimate of the seconds until the translation ends; None before it has begun, and afterwards."""
        if self.started_at is None or not self.characters_done or self.is_over:
            return None
        pace = (time.monotonic() - self.started_at) / self.characters_done
        return round(pace * max(self.characters - self.characters_done, 0))

    def changed(self) -> None:
        """Wake all who wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Count a client that waits for as long as the context lasts."""
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1
            self.wanted_at = time.monotonic()

    async def wait_for_change(self) -> None:
        """Wait until the progress or the state changes; at once if it is over."""
        if not self.is_over:
            await self._changed.wait()


class DocumentJobs:
    """The documents of one server, each in its own directory; all are deleted when the server stops."""

    def __init__(
        self,
        translator: Translator,
        directory: Path | None,
        limits: DocumentLimits,
        most: int,
    ) -> None:
        """`start` makes `directory`, by default a temporary one. At most `most` documents are kept."""
        self.limits = limits
        self._translator = translator
        self._most = most
        self._configured = directory
        self._directory: Path | None = None
        self._stack = ExitStack()
        self._jobs: dict[str, DocumentJob] = {}
        self._receiving: Counter[str] = Counter()
        """The number of documents that each caller is sending now."""
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._counting = asyncio.Semaphore(_AT_ONCE)
        self._sweeper: asyncio.Task[None] | None = None
        self._is_stopping = False

    @property
    def is_enabled(self) -> bool:
        return self._most > 0

    def start(self) -> None:
        """Make or empty the directory, and begin to delete expired documents.

        Raises `OSError` if the configured directory cannot be used. Documents are refused if there is no directory for
        temporary files, as in a read-only container.
        """
        try:
            self._directory = self._stack.enter_context(workplace(self._configured))
        except OSError as error:
            if self._configured is not None:
                raise
            logger.warning("no documents: there is no directory for temporary files (%s)", error.strerror)
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        """Cancel all jobs and delete all documents."""
        self._is_stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for job in list(self._jobs.values()):
            await self.delete(job)
        self._stack.close()

    @contextmanager
    def receiving(self, owner: str) -> Iterator[None]:
        """Count a document of `owner` while it is received and checked. Raises `QueueFull`."""
        own = sum(job.owner == owner for job in self._jobs.values()) + self._receiving[owner]
        total = len(self._jobs) + self._receiving.total()
        if total >= self._most or own >= max(self._most // _SHARE, 1):
            raise QueueFull("too many documents are translated or kept; download or delete some, or try again later")
        self._receiving[owner] += 1
        try:
            yield
        finally:
            self._receiving[owner] -= 1
            self._receiving += Counter()  # removes callers with 0

    def new_directory(self) -> Path:
        """Make the directory of a document. Raises `InsufficientStorage`."""
        if self._directory is None:
            raise InsufficientStorage("documents")
        try:
            return Path(tempfile.mkdtemp(prefix="document-", dir=self._directory))
        except OSError:
            raise InsufficientStorage("documents") from None

    async def count(self, document: Document, name: str) -> Counted:
        """Read a document in a process of its own, and count its characters.

        Raises `InvalidRequest`, `TooLong` and `InsufficientStorage`.
        """
        async with self._counting, reading(Order(str(document.path), name, document.options, self.limits)) as process:
            found = await process.answer()
        assert isinstance(found, Counted)
        return found

    def submit(self, job: DocumentJob) -> None:
        """Queue a document."""
        self._jobs[job.id] = job
        job.task = asyncio.create_task(self._run(job))

    def find(self, identifier: str) -> DocumentJob:
        """Return a document, and note that it is wanted. Raises `UnknownDocument`."""
        job = self._jobs.get(identifier)
        if job is None:
            raise UnknownDocument
        job.wanted_at = time.monotonic()
        return job

    async def delete(self, job: DocumentJob) -> None:
        """Cancel a document, and delete its files."""
        self._jobs.pop(job.id, None)
        if job.task is not None:
            job.task.cancel()
            await asyncio.gather(job.task, return_exceptions=True)
        if not job.is_over:
            self._end(job, UnknownDocument())
        await asyncio.to_thread(shutil.rmtree, job.document.path.parent, True)

    async def _run(self, job: DocumentJob) -> None:
        error: BaseException | None = None
        was_cancelled = False
        try:
            async with self._turns:
                job.state, job.started_at = "translating", time.monotonic()
                job.changed()
                await self._translate(job)
        except ServiceError as failure:
            error = failure
        except OSError:
            error = InsufficientStorage("documents")
        except asyncio.CancelledError:
            # Characters translated so far stay counted, unless this server is to blame.
            error = None if job.state == "translating" and not self._is_stopping else UnknownDocument()
            was_cancelled = True
        except BaseException as failure:
            if not is_error(failure):
                raise
            logger.exception("unexpected error in a document", extra={"document_id": job.id})
            error = failure
        await job.charge.__aexit__(type(error) if error else None, error, None)
        if was_cancelled:
            raise asyncio.CancelledError
        if error is not None and not isinstance(error, ServiceError):
            error = ServiceError("internal error")
        self._end(job, error)

    def _end(self, job: DocumentJob, error: ServiceError | None) -> None:
        job.error, job.ended_at = error, time.monotonic()
        job.state = "done" if error is None else "error"
        job.changed()

    async def _translate(self, job: DocumentJob) -> None:
        document, translations = job.document, None
        order = Order(str(document.path), job.name, document.options, self.limits, str(job.result))
        async with reading(order) as process:
            while isinstance(found := await process.answer(translations), Batch):
                translations = await self._translations(job, found.texts)
                job.characters_done += found.characters
                job.changed()
        assert isinstance(found, Written)
        job.report = found.report

    async def _translations(self, job: DocumentJob, texts: Sequence[str]) -> list[str]:
        while True:
            try:
                translation = self._translator.start(texts, job.source, job.target, job.options)
            except (QueueFull, NotReady):
                # Other requests come first: their callers are waiting.
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            try:
                return [each.text for each in (await translation.finished()).translations]
            finally:
                translation.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.monotonic()
            for job in list(self._jobs.values()):
                is_expired = job.ended_at is not None and now - job.ended_at > _EXPIRY_SECONDS
                is_unwanted = not job.is_over and not job.readers and now - job.wanted_at > _UNWANTED_SECONDS
                if is_expired or is_unwanted:
                    await self.delete(job)
