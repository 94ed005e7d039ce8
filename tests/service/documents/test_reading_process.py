"""The process that reads and writes a document: it is killed at its limits, and harms nobody."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from service.documents.limits import DocumentLimits
from service.documents.paragraph import Batch, ReadOptions
from service.documents.reading import Counted, Order, Written
from service.documents.reading_process import reading
from service.errors import InvalidRequest, ServiceError, TooLong
from tests.service.documents.test_hostile import CASES

LIMITS = DocumentLimits(max_processor_seconds=2)


def _order(path: Path, content: bytes, name: str, limits: DocumentLimits = LIMITS, output: Path | None = None) -> Order:
    path.write_bytes(content)
    return Order(str(path), name, ReadOptions(target="fr"), limits, None if output is None else str(output))


async def test_a_document_is_counted_and_translated(tmp_path: Path) -> None:
    async with reading(_order(tmp_path / "source", b"one\n\n12\n\ntwo\n", "a.txt")) as process:
        assert await process.answer() == Counted(6, "one two ")
    output = tmp_path / "result"
    async with reading(_order(tmp_path / "source", b"one\n\n12\n\ntwo\n", "a.txt", output=output)) as process:
        assert await process.answer() == Batch(["one", "two"], 6)
        written = await process.answer(["UN", "two"])
    assert isinstance(written, Written)
    assert (written.report.translated, written.report.unchanged) == ({"text": 1}, 1)
    assert written.report.in_words() == ["1 text translated (1 of text)", "1 text equal in both languages"]
    assert output.read_bytes() == b"UN\n\n12\n\ntwo\n"


@pytest.mark.parametrize("case", ["a tag that is not closed", "broken json", "json without end", "an unknown format"])
async def test_errors_are_those_of_the_reader(case: str, tmp_path: Path) -> None:
    name, content, problem = CASES[case]
    assert isinstance(content, bytes)
    async with reading(_order(tmp_path / "source", content, name)) as process:
        with pytest.raises(InvalidRequest, match=f"^file: .*{problem}"):
            await process.answer()


_ENDLESS = "import service.documents.document as d\ndef f(self):\n  while True: pass\nd.Document.count = f\n"


async def test_a_process_without_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = tmp_path / "sitecustomize.py"
    endless.write_text(_ENDLESS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[3]}")
    limits = replace(LIMITS, max_processor_seconds=1)
    async with reading(_order(tmp_path / "source", b"a", "a.txt", limits)) as process:
        with pytest.raises(
            TooLong, match=r"^file: reading and writing it takes more than 1 seconds of processor time$"
        ):
            await process.answer()


async def test_memory_is_limited(tmp_path: Path) -> None:
    limits = replace(LIMITS, max_memory_bytes=60_000_000, max_processor_seconds=20)
    async with reading(_order(tmp_path / "source", b"<b>" * 4_000_000, "a.html", limits)) as process:
        with pytest.raises(TooLong, match=r"^file: (it needs more than 60000000 bytes of memory|.*paragraph)"):
            await process.answer()


async def test_a_process_ends_at_once_when_nobody_waits(tmp_path: Path) -> None:
    async with reading(_order(tmp_path / "source", b"one\n", "a.txt", output=tmp_path / "result")) as process:
        await process.answer()
        started = time.monotonic()
    assert time.monotonic() - started < 2
    with pytest.raises(ServiceError):
        await process.answer(["UN"])
    assert not (tmp_path / "result").exists()
