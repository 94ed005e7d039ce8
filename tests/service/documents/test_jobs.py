"""The directory of documents: made, emptied, or missing."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import cast

import pytest

from service.documents.document import open_document
from service.documents.jobs import DocumentJob, DocumentJobs
from service.documents.limits import DocumentLimits
from service.documents.paragraph import ReadOptions
from service.documents.workplace import workplace
from service.errors import InsufficientStorage, QueueFull, UnknownDocument
from service.translation.options import TranslationOptions
from service.translation.translator import Translator
from tests.panics import PanicException


def _jobs(directory: Path | None, most: int = 8) -> DocumentJobs:
    return DocumentJobs(cast(Translator, None), directory, DocumentLimits(), most)


def _names(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir()]


async def test_a_start_empties_the_directory_of_documents_only(tmp_path: Path) -> None:
    (tmp_path / "document-old").mkdir()
    (tmp_path / "document-old" / "source").touch()
    (tmp_path / "other").touch()
    jobs = _jobs(tmp_path)
    jobs.start()
    assert _names(tmp_path) == ["other"]
    assert jobs.new_directory().parent == tmp_path
    await jobs.stop()


_KILLED = """
import os
from service.documents.workplace import workplace
with workplace(None):
    os.kill(os.getpid(), 9)
"""
"""A server that is killed with documents among the temporary files."""


async def test_temporary_files_end_with_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", _KILLED, env=environment)
    assert await killed.wait() == -signal.SIGKILL
    with workplace(None) as other:
        assert _names(tmp_path) == [other.name]
        jobs = _jobs(None)
        jobs.start()
        assert jobs.new_directory().stat().st_mode & 0o077 == 0
        await jobs.stop()
        assert _names(tmp_path) == [other.name]
    assert _names(tmp_path) == []


async def test_without_a_place_for_files_documents_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    jobs = _jobs(None)
    jobs.start()
    with pytest.raises(InsufficientStorage, match=r"^documents: the server's disk is full or read-only"):
        jobs.new_directory()
    await jobs.stop()


async def test_none_are_kept_if_the_limit_says_so(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, most=0)
    jobs.start()
    with pytest.raises(QueueFull), jobs.receiving("me"):
        pass
    with pytest.raises(UnknownDocument, match="the server restarted"):
        jobs.find("0")
    await jobs.stop()


async def test_a_panic_ends_a_document_with_an_error(tmp_path: Path) -> None:
    class Panicking:
        def start(self, *_: object) -> None:
            raise PanicException("a bug")

    ends: list[type[BaseException] | None] = []

    class Charge:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
            ends.append(kind)

    jobs = DocumentJobs(cast(Translator, Panicking()), tmp_path, DocumentLimits(), 8)
    jobs.start()
    source = jobs.new_directory() / "source"
    source.write_text("I see a cat.", encoding="utf-8")
    job = DocumentJob(
        owner="me",
        document=open_document(source, "a.txt", ReadOptions(target="fr"), jobs.limits),
        name="a.txt",
        source="en",
        target="fr",
        characters=12,
        options=TranslationOptions(),
        charge=Charge(),
    )
    jobs.submit(job)
    while not job.is_over:
        await job.wait_for_change()
    assert (job.state, str(job.error), ends) == ("error", "internal error", [PanicException])
    await jobs.stop()


def test_places_are_reserved_while_documents_are_received(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, most=8)
    with jobs.receiving("me"), jobs.receiving("me"):
        with pytest.raises(QueueFull), jobs.receiving("me"):
            pass
        with jobs.receiving("you"):
            pass
    with jobs.receiving("me"):
        pass
