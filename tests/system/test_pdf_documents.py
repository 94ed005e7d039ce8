"""PDFs over HTTP, by DeepL's client and on the command line: their translations are docx or Markdown."""

import io
import time
import zipfile
from pathlib import Path

import deepl
import httpx
import pytest

from tests.service.documents.pdf.test_reader import SCAN
from tests.service.documents.pdf.writing import Text, pdf_of
from tests.system.commands import dragoman_here
from tests.system.conftest import Server

PDF = pdf_of([Text(50, 50, "I see a cat.", 20), Text(50, 90, "The house is red.")], SCAN)
MARKDOWN = "# Je vois un chat.\n\nLa maison est rouge.\n"
WARNING = "pages without text, only pictures: 2; recognise their text (OCR) first"


def _text(document: bytes) -> str:
    return zipfile.ZipFile(io.BytesIO(document)).read("word/document.xml").decode()


def test_over_http(server: Server) -> None:
    data = {"source": "en", "target": "fr", "output_format": "md"}
    sent = httpx.post(f"{server.url}/documents", data=data, files={"file": ("a.pdf", PDF)}, timeout=60)
    address = f"{server.url}/documents/{sent.json()['id']}"
    while (state := httpx.get(address).json())["state"] != "done":
        assert state["state"] != "error", state
        time.sleep(0.05)
    assert state["warnings"] == [WARNING]
    result = httpx.get(f"{address}/result")
    assert (result.text, result.headers["content-disposition"]) == (MARKDOWN, 'attachment; filename="a.fr.md"')


def test_as_libretranslate(server: Server) -> None:
    data = {"source": "en", "target": "fr"}
    sent = httpx.post(f"{server.url}/translate_file", data=data, files={"file": ("a.pdf", PDF)}, timeout=60)
    address = sent.json()["translatedFileUrl"]
    assert address.endswith(".docx")
    assert "La maison est rouge." in _text(httpx.get(address).content)
    assert ".pdf" in httpx.get(f"{server.url}/frontend/settings").json()["supportedFilesFormat"]


def test_by_deepl_s_client(server: Server, tmp_path: Path) -> None:
    client = deepl.DeepLClient("any", server_url=server.url)
    source, output = tmp_path / "a.pdf", tmp_path / "a.docx"
    source.write_bytes(PDF)
    client.translate_document_from_filepath(source, output, source_lang="EN", target_lang="FR")
    assert "La maison est rouge." in _text(output.read_bytes())
    with pytest.raises(deepl.DeepLException, match="output_format: must be docx or md"):
        client.translate_document_upload(PDF, target_lang="FR", filename="a.pdf", output_format="pptx")


def test_on_the_command_line(server: Server, tmp_path: Path) -> None:
    folder, output = tmp_path / "folder", tmp_path / "output"
    folder.mkdir()
    (folder / "a.pdf").write_bytes(PDF)
    done = dragoman_here(
        "translate", "--file", str(folder / "a.pdf"), "--output", str(tmp_path / "a.md"), "--url", server.url
    )
    assert (done.returncode, done.stderr) == (0, f"dragoman: a.pdf: {WARNING}\n")
    assert (tmp_path / "a.md").read_text() == MARKDOWN
    (folder / "b.pdf").write_bytes(PDF)
    (folder / "b.docx").write_bytes((folder / "a.pdf").read_bytes())
    done = dragoman_here("translate", "--file", str(folder), "--output", str(output), "--url", server.url)
    assert "b.docx: its content is not docx" in done.stderr
    assert sorted(each.name for each in output.glob("*.docx")) == ["a.docx", "b.pdf.docx"]
    assert "La maison est rouge." in _text((output / "a.docx").read_bytes())
    more = ("--output-format", "md", "--url", server.url)
    for expected in ("1 failed, 2 translated", "1 failed, 2 unchanged"):
        done = dragoman_here("translate", "--file", str(folder), "--output", str(output), *more)
        assert sorted(done.stderr.splitlines()[-1].split(", ")) == expected.split(", ")
    assert (output / "b.md").read_text() == MARKDOWN
