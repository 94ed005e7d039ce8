"""Reading takes processor time in proportion to the document's size, or the document is refused at once."""

import gc
import io
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from service.documents.document import open_document
from service.documents.limits import DocumentLimits
from service.documents.paragraph import ReadOptions
from service.errors import ServiceError

_SIZE = 19_000
_MOST_GROWTH = 3.0
"""Twice the size takes twice the time; quadratic time would be four times as much."""
_FEW_SECONDS = 0.02
_TRIES = 4


def _blocks(text: str, size: int) -> str:
    """Repeat a text in paragraphs of almost the longest allowed size."""
    longest = min(size, 19_000)
    return "\n\n".join([text * (longest // len(text))] * (size // longest))


def _docx(body: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        address = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{address}">{body}</w:document>')
    return written.getvalue()


def _field(size: int) -> bytes:
    runs = "<w:r><w:t>a</w:t></w:r>" * (size // 23)
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    return _docx(f"<w:p>{mark.format('begin')}{runs}{mark.format('end')}</w:p>")


def _prefixes(size: int) -> bytes:
    declared = " ".join(f'xmlns:a{number}="b"' for number in range(min(size // 28, 400)))
    return _docx(f"<w:a {declared}>" + '<a xmlns=""/>' * (size // 14) + "</w:a>")


CUE = "00:00:01,000 --> 00:00:02,000\n"
CASES: dict[str, tuple[str, Callable[[int], str | bytes]]] = {
    "a heading with spaces": ("md", lambda size: "# a" + " " * size + "b"),
    "comments of markdown": ("md", lambda size: _blocks("<!--", size)),
    "stars": ("md", lambda size: _blocks(" *a", size)),
    "tags of markdown": ("md", lambda size: _blocks("<q>", size)),
    "brackets": ("md", lambda size: _blocks("[", size)),
    "code marks": ("md", lambda size: _blocks("`a``b", size)),
    "formulas": ("md", lambda size: _blocks("$a ", size)),
    "quotations": ("md", lambda size: ">" * size + "a"),
    "lists in lists": ("md", lambda size: "- " * size + "a"),
    "containers": ("md", lambda size: ":::a\n" * (size // 5)),
    "admonitions": ("md", lambda size: "!!! a\n" * (size // 6)),
    "components": ("md", lambda size: "<A>\n" * (size // 4) + "</A>\n" * (size // 5)),
    "a cue with a lone return": ("srt", lambda size: CUE + "a" * size + "\rb"),
    "ends of tags": ("srt", lambda size: CUE + ".</" * size + "\n\n" + CUE + ".</" * size),
    "notes": ("vtt", lambda size: "WEBVTT\n\n" + "NOTE a\n\n" * (size // 8) + (CUE + "a.\n\n") * (size // 60)),
    "lines of a cue": ("srt", lambda size: CUE + "ab\n" * (size // 3)),
    "tags of a text": ("txt", lambda size: "<b>" * size + "</b>" * size),
    "blank lines": ("txt", lambda size: "\n" * size * 4),
    "short lines": ("txt", lambda size: "1\n" * size),
    "empty cells": ("csv", lambda size: "," * size),
    "a field of many runs": ("docx", _field),
    "prefixes": ("docx", _prefixes),
    "open brackets": ("yaml", lambda size: "a: {" * (size // 4)),
    "tags of a page": ("html", lambda size: "<b>" * size),
    "braces": ("tex", lambda size: "\\a{" * (size // 3)),
    "dollars and environments": ("tex", lambda size: "$ \\begin{equation} \\(" * (size // 24)),
    "anchors of asciidoc": (
        "adoc",
        lambda size: "[[" + "a" * (size // 3) + "\n" + "[" * (size // 3) + "[[a, " * (size // 15),
    ),
    "cells of asciidoc": ("adoc", lambda size: "|===\n" + "|a *b\n" * (size // 60)),
    "a long table": ("md", lambda size: "|a|b|\n|-|-|\n" + "|c|d|\n" * (size // 60)),
}


def _seconds(path: Path, content: str | bytes) -> float:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    gc.collect()
    gc.disable()  # the objects of other tests would be visited, too
    started = time.process_time()
    with suppress(ServiceError):
        open_document(path, path.name, ReadOptions(target="fr"), DocumentLimits()).count()
    gc.enable()
    return time.process_time() - started


@pytest.mark.parametrize("case", CASES)
def test_twice_the_size_takes_twice_the_time(case: str, tmp_path: Path) -> None:
    ending, content = CASES[case]
    path = tmp_path / f"a.{ending}"
    once, twice = content(_SIZE), content(2 * _SIZE)
    for _ in range(_TRIES):  # the clock is coarse, and other processes disturb caches
        if _seconds(path, twice) <= _MOST_GROWTH * _seconds(path, once) + _FEW_SECONDS:
            return
    pytest.fail(f"{case}: more than {_MOST_GROWTH} times as long for twice the size")
