"""Hostile and broken documents: each is one clear error that names the file, and nothing is left on disk."""

import io
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from service.documents.document import open_document
from service.documents.limits import DocumentLimits
from service.documents.paragraph import ReadOptions
from service.errors import InvalidRequest, ServiceError, TooLong
from tests.service.documents.conftest import FILES, Rewrite

W: Final = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
DOCX: Final = (FILES / "report.docx").read_bytes()
LIMITS: Final = DocumentLimits(
    max_bytes=2_000_000,
    max_characters=100_000,
    max_paragraphs=1_000,
    max_members=100,
    max_expanded_bytes=30_000_000,
    max_part_bytes=3_000_000,
)
MEMORY: Final = 60_000_000
"""Bytes that reading a hostile document may take: some times the largest part."""

Part = tuple[str, bytes | str]


def _zip(*parts: Part) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts:
            archive.writestr(name, content)
    return written.getvalue()


def _docx(body: str, *others: Part) -> bytes:
    return _zip(("word/document.xml", f"<w:document {W}><w:body>{body}</w:body></w:document>"), *others)


def _xml(text: str | bytes) -> bytes:
    return _zip(("word/document.xml", text))


def _entities(depth: int) -> bytes:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, depth))
    return _xml(f'<!DOCTYPE a [<!ENTITY e0 "ha">{levels}]><w:document {W}>&e{depth - 1};</w:document>')


def _ncx(subset: str, content: str) -> bytes:
    declared = f'<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://127.0.0.1/ncx.dtd"{subset}>'
    return _zip(("META-INF/container.xml", "<a/>"), ("toc.ncx", f"{declared}<ncx>{content}</ncx>"))


def _patched(archive: bytes, *, flags: int | None = None, method: int | None = None, size: int | None = None) -> bytes:
    """Change fields of all entries, in the directory and in front of the members."""
    data = bytearray(archive)
    for mark, offset in ((b"PK\x01\x02", 2), (b"PK\x03\x04", 0)):
        place = data.find(mark)
        while place >= 0:
            if flags is not None:
                struct.pack_into("<H", data, place + 6 + offset, flags)
            if method is not None:
                struct.pack_into("<H", data, place + 8 + offset, method)
            if size is not None:
                struct.pack_into("<I", data, place + 22 + offset, size)
            place = data.find(mark, place + 4)
    return bytes(data)


def _twice() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate name"):
        return _zip(("word/document.xml", f"<a {W}/>"), ("word/document.xml", f"<b {W}/>"))


def _flipped(data: bytes) -> bytes:
    """Damage the compressed text, not the directory."""
    damaged = bytearray(data)
    place = data.find(b"word/document.xml") + 60
    damaged[place : place + 40] = bytes(40)
    return bytes(damaged)


def _mimetype(name: str, *others: Part) -> bytes:
    return _zip(("mimetype", name), ("content.xml", "<a/>"), *others)


_P: Final = "<w:p><w:r><w:t>text</w:t></w:r></w:p>"
_DEEP: Final = "<w:ins>" * 5_000 + "</w:ins>" * 5_000
_NESTED: Final = _zip(("inner.zip", _zip(("more.zip", _zip(("x", bytes(1_000_000)))))))
ODT_TYPE: Final = "application/vnd.oasis.opendocument.text"

CASES: Final[dict[str, tuple[str, bytes | Callable[[], bytes], str]]] = {
    # Bombs.
    "many parts that expand": (
        "a.docx",
        _docx("", *((f"{n}", bytes(5_000_000)) for n in range(20))),
        "expands to more",
    ),
    "a bomb with a false size": ("a.docx", _patched(_docx(_P * 1_000), size=200), "the archive is damaged"),
    "too many parts": ("a.docx", _docx(_P, *((f"{n}", b"") for n in range(200))), "201 parts, the limit is 100"),
    "a file over the limit": ("a.txt", b"a b\n" * 600_000, "2400000 bytes, the limit is 2000000"),
    "too many paragraphs": (
        "a.docx",
        _docx(_P * 1_001 + "".join(map(str, range(20_000)))),
        "more than 1000 paragraphs",
    ),
    "too many characters": ("a.txt", b"some words\n" * 20_000, "more than"),
    "one endless paragraph": ("a.txt", b"word " * 15_000, "a paragraph has more than 40000 characters"),
    "too many cells": ("a.csv", b"a,b\n" * 2_000, "more than 1000 paragraphs"),
    # Entities and document types.
    "a billion laughs": ("a.docx", _entities(10), "document type or entities"),
    "an external entity": (
        "a.docx",
        _xml(f'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><w:document {W}>&e;</w:document>'),
        "document type or entities",
    ),
    "a parameter entity": (
        "a.odt",
        _mimetype(ODT_TYPE, ("styles.xml", '<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1/"> %p;]><a/>')),
        "document type or entities",
    ),
    "an external document type": ("a.docx", _xml('<!DOCTYPE a SYSTEM "http://127.0.0.1/a.dtd"><a/>'), "document type"),
    "a known document type with an entity": ("a.epub", _ncx(' [<!ENTITY e "x">]', "&e;"), "document type or entities"),
    "an entity of a known document type": ("a.epub", _ncx("", "&nbsp;"), "undefined entity nbsp"),
    "an unknown entity": ("a.docx", _docx("<w:p>&nbsp;</w:p>"), "undefined entity"),
    # Archives in archives.
    "two parts of one name": ("a.docx", _twice, "two parts of the archive have the same name"),
    "an archive of archives": ("a.docx", _NESTED, "its content is not docx"),
    # Broken XML.
    "a tag that is not closed": ("a.docx", _docx("<w:p>"), "broken: mismatched tag"),
    "levels without end": ("a.docx", _docx(_DEEP + "".join(map(str, range(9_000)))), "more than 200 levels"),
    "text that is not its encoding": ("a.docx", _xml(b"<a>\xff\xfe\xfa</a>"), "is not UTF-8"),
    "xml that is not xliff": ("a.xliff", b"<html></html>", "it begins with html"),
    # Wrong beginnings.
    "an empty file": ("a.docx", b"", "it is empty"),
    "a picture": ("a.docx", b"\x89PNG\r\n\x1a\n" + bytes(100), "its content is not docx"),
    "an archive as text": ("a.txt", DOCX, "its content is not txt"),
    "docx as odt": ("a.odt", DOCX, "its content is not odt"),
    "a presentation as odt": ("a.odt", _mimetype("application/vnd.oasis.opendocument.presentation"), "is not odt"),
    "pdf as docx": ("a.docx", b"%PDF-1.7", "its content is not docx"),
    "an old binary format": ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as docx"),
    "an unknown format": ("a.exe", b"MZ", r"the file extension \.exe is not supported; available: docx"),
    "no ending": ("a", b"text", "no file extension; available: docx"),
    "binary as text": ("a.txt", b"a\0b", "zero bytes"),
    "neither encoding": ("a.html", b"<p>\xc3\x81 \xff \x81</p>", "is not UTF-8; save it as UTF-8"),
    "no subtitles": ("a.srt", b"hello\n", "it has no subtitles"),
    # Encrypted.
    "an encrypted archive": ("a.docx", _patched(_docx(_P), flags=1), "is encrypted"),
    "an encrypted office file": ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "it is encrypted"),
    "an encrypted odt": (
        "a.odt",
        _mimetype(ODT_TYPE, ("META-INF/manifest.xml", "<m:encryption-data/>")),
        "is encrypted",
    ),
    "a protected e-book": (
        "a.epub",
        _zip(("META-INF/container.xml", "<a/>"), ("META-INF/encryption.xml", "a.xhtml")),
        "is encrypted",
    ),
    # Damaged.
    "half an archive": ("a.docx", DOCX[: len(DOCX) // 2], "the archive is damaged"),
    "damaged data": ("a.docx", _flipped(_docx(_P)), "damaged"),
    "another compression": ("a.docx", _patched(_docx(_P), method=99), "damaged"),
    "broken fluent": ("a.ftl", b"a = b\nc\n", r"the Fluent file is broken: .* \(line 2\)"),
    "broken json": ("a.json", b'{"a": }', r"the JSON is broken: expecting value \(line 1, column 7\)"),
    "json without end": ("a.json", b"[" * 100_000, "it is nested too deep"),
    "a broken po file": ("a.po", b'msgid "a"\nmsgtr "b"\n', "the PO file is broken at line 2"),
    "broken strings": ("a.strings", b'"a" = "b";\n"c" "d";', "the strings are broken after line 1"),
    "broken yaml": ("a.yaml", b"a: [1\nb: 2", r"the YAML is broken: .* \(line 2\)"),
    "yaml without end": ("a.yaml", b"[" * 5_000, "the YAML is"),
    "an open quote": ("a.csv", b'"' + b"a" * 200_000, "a quote in row 1 is not closed"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str, tmp_path: Path) -> None:
    name, content, problem = CASES[case]
    path, output = tmp_path / "document", tmp_path / "output"
    path.write_bytes(content() if callable(content) else content)
    tracemalloc.start()
    try:
        with pytest.raises(ServiceError, match=f"^file: .*(?:{problem})") as refused:
            open_document(path, name, ReadOptions(target="fr"), LIMITS).count()
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
    assert isinstance(refused.value, InvalidRequest | TooLong)
    assert "\n" not in refused.value.message
    assert not output.exists()


def test_an_embedded_archive_is_copied_unread(rewrite: Rewrite) -> None:
    written = rewrite("a.docx", _docx(_P, ("word/embeddings/a.xlsx", _NESTED)))
    assert zipfile.ZipFile(io.BytesIO(written)).read("word/embeddings/a.xlsx") == _NESTED
