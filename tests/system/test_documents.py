"""Documents over HTTP and on the command line."""

import io
import json
import os
import signal
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import deepl
import httpx
import psutil
import pytest

from tests.service.documents.conftest import FILES
from tests.system.commands import dragoman_here
from tests.system.conftest import COMPILES, Server, StartServer, run_server
from tests.system.sentences import SENTENCES
from tests.waiting import wait_for

REPORT = FILES / "report.docx"
BOLD = '<w:b/></w:rPr><w:t xml:space="preserve">se félicite'  # "welcomes", as the embedded model translates it
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def _docx(paragraphs: int) -> bytes:
    """Make a document of so many paragraphs, each with a bold word."""
    bold = "<w:r><w:rPr><w:b/></w:rPr><w:t>Water</w:t></w:r>"
    texts = (f"<w:r><w:t>{number} {SENTENCES[number % len(SENTENCES)]} </w:t></w:r>" for number in range(paragraphs))
    body = "".join(f"<w:p>{text}{bold}<w:r><w:t> is blue.</w:t></w:r></w:p>" for text in texts)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:document {_W}><w:body>{body}</w:body></w:document>")
    return written.getvalue()


def _text(document: bytes) -> str:
    return zipfile.ZipFile(io.BytesIO(document)).read("word/document.xml").decode()


def _send(server: Server, content: bytes, name: str = "report.docx", **fields: str) -> httpx.Response:
    data = {"source": "en", "target": "fr", **fields}
    return httpx.post(f"{server.url}/documents", data=data, files={"file": (name, content)}, timeout=60)


def _wait(server: Server, identifier: str, state: str = "done") -> dict[str, object]:
    def look() -> dict[str, object] | None:
        found: dict[str, object] = httpx.get(f"{server.url}/documents/{identifier}").json()
        assert found["state"] != "error", found
        return found if found["state"] == state else None

    found = wait_for(look)
    assert found is not None
    return found


def _with_image(document: bytes, size: int) -> bytes:
    """Add an image of so many bytes, which cannot be packed."""
    written = io.BytesIO(document)
    with zipfile.ZipFile(written, "a") as archive:
        archive.writestr("word/media/image.png", os.urandom(size))
    return written.getvalue()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents")


@pytest.fixture(scope="module")
def documents_server(tmp_path_factory: pytest.TempPathFactory, kept: Path) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("server") / "log", "--documents", str(kept)) as server:
        yield server


def test_a_document_is_a_job_and_gone_after_its_download(documents_server: Server, kept: Path) -> None:
    sent = _send(documents_server, REPORT.read_bytes())
    assert sent.status_code == 202
    found = _wait(documents_server, sent.json()["id"])
    assert found["characters"] == found["characters_done"] == 295
    address = f"{documents_server.url}/documents/{found['id']}/result"
    assert httpx.head(address).status_code == 405
    assert httpx.get(address, headers={"Range": "bytes=0-1"}).content == b"PK"
    assert httpx.get(address, headers={"Range": "bytes=9999999-"}).status_code == 416
    result = httpx.get(address)
    assert result.headers["content-disposition"] == 'attachment; filename="report.fr.docx"'
    assert BOLD in _text(result.content)
    gone = httpx.get(address)
    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_document")
    two = [("file", (name, b"x")) for name in ("a.txt", "b.txt")]
    answer = httpx.post(f"{documents_server.url}/documents", data={"source": "en", "target": "fr"}, files=two)
    assert (answer.status_code, answer.json()["error"]) == (400, "file: must be one file; the form has more")
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize(("fuzzy", "mark"), [("true", "#, fuzzy\n"), ("false", "")])
def test_marks_of_messages_and_the_report_in_words(fuzzy: str, mark: str, documents_server: Server) -> None:
    sent = _send(documents_server, b'msgid "I see a cat."\nmsgstr ""\n', "a.po", fuzzy=fuzzy)
    found = _wait(documents_server, sent.json()["id"])
    assert found["summary"] == ["1 text translated (1 of entry)"]
    result = httpx.get(f"{documents_server.url}/documents/{found['id']}/result").text
    assert result == f'{mark}msgid "I see a cat."\nmsgstr "Je vois un chat."\n'


def test_progress_by_server_sent_events(documents_server: Server) -> None:
    identifier = _send(documents_server, _docx(60)).json()["id"]
    address = f"{documents_server.url}/documents/{identifier}"
    with httpx.stream("GET", address, headers={"Accept": "text/event-stream"}, timeout=60) as stream:
        states = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]
    done = [state["characters_done"] for state in states]
    assert done == sorted(done)
    assert states[-1]["state"] == "done"
    assert done[-1] == states[-1]["characters"]
    assert httpx.delete(address).status_code == 204


def test_a_client_that_leaves_ends_the_reading(documents_server: Server, kept: Path) -> None:
    before = {*kept.iterdir()}
    files = {"file": ("a.md", ("[" * 19_000 + "\n\n") * 3)}  # takes seconds to count
    patience = httpx.Timeout(60, read=0.3)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{documents_server.url}/documents", data={"target": "fr"}, files=files, timeout=patience)
    wait_for(lambda: {*kept.iterdir()} == before, otherwise=lambda: "the document of nobody stays")


def test_deleted_while_it_is_translated(documents_server: Server, kept: Path) -> None:
    identifier = _send(documents_server, _docx(400)).json()["id"]
    _wait(documents_server, identifier, "translating")
    early = httpx.get(f"{documents_server.url}/documents/{identifier}/result")
    assert (early.status_code, early.json()["code"]) == (409, "document_not_ready")
    assert httpx.delete(f"{documents_server.url}/documents/{identifier}").status_code == 204
    assert httpx.get(f"{documents_server.url}/documents/{identifier}").status_code == 404
    documents_server.wait_for_metric("dragoman_slots_used", 0)
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize(
    ("fields", "name", "status", "problem"),
    [
        ({}, "a.pdf", 400, "file: its content is not pdf"),
        ({"target": "xx"}, "a.docx", 400, "target: xx is not supported"),
        ({"colums": "1"}, "a.docx", 400, "colums: no such field"),
        ({}, "a.odt", 400, "file: its content is not odt"),
    ],
)
def test_refused(
    fields: dict[str, str], name: str, status: int, problem: str, documents_server: Server, kept: Path
) -> None:
    data = {"source": "en", "target": "fr", **fields}
    files = {"file": (name, REPORT.read_bytes())}
    for path in ("/documents", "/translate_file"):
        answer = httpx.post(f"{documents_server.url}{path}", data=data, files=files)
        assert answer.status_code == status
        found = answer.json()
        assert found.get("detail", found["error"]).startswith(problem)
    assert list(kept.iterdir()) == []


def test_no_file(documents_server: Server) -> None:
    for without in ({}, {"file": (None, "I see a cat.")}):
        answer = httpx.post(f"{documents_server.url}/documents", files={"target": (None, "fr"), **without})
        assert answer.json()["error"] == "file: field required: a file with its name"


@pytest.mark.parametrize(
    ("fields", "files", "error", "field"),
    [
        ({"target": "fr"}, {}, "Invalid request: missing file parameter", "file"),
        ({}, {"file": ("a.docx", b"x")}, "Invalid request: missing target parameter", "target"),
        ({"target": "xx"}, {"file": ("a.docx", b"x")}, "xx is not supported", "target"),
        ({"target": "fr"}, {"file": ("a.rtf", b"x")}, "Invalid request: file format not supported", "file"),
        ({"target": "fr"}, {"file": ("a.csv", b"%PDF-1.7")}, "Invalid request: file format not supported", "file"),
    ],
)
def test_errors_in_libretranslate_s_words(
    fields: dict[str, str], files: dict[str, tuple[str, bytes]], error: str, field: str, documents_server: Server
) -> None:
    form = {"source": (None, "en")} | {name: (None, value) for name, value in fields.items()} | files
    answer = httpx.post(f"{documents_server.url}/translate_file", files=form)
    found = answer.json()
    assert (answer.status_code, found["error"], found["field"]) == (400, error, field)
    assert found["detail"].startswith(f"{field}: ")


def test_a_download_that_was_cut_off_can_be_repeated(documents_server: Server) -> None:
    """The image is larger than all buffers on the way."""
    identifier = _send(documents_server, _with_image(_docx(1), 16_000_000)).json()["id"]
    _wait(documents_server, identifier)
    address = f"{documents_server.url}/documents/{identifier}/result"
    with httpx.stream("GET", address) as cut:
        assert int(cut.headers["content-length"]) > 16_000_000
    wait_for(lambda: cut.headers["x-request-id"] in documents_server.log.read_text(encoding="utf-8"))
    whole = httpx.get(address)
    assert (whole.status_code, len(whole.content)) == (200, int(cut.headers["content-length"]))
    assert httpx.get(address).status_code == 404


def test_as_libretranslate(documents_server: Server) -> None:
    settings = httpx.get(f"{documents_server.url}/frontend/settings").json()
    assert ".docx" in settings["supportedFilesFormat"]
    files = {"file": ("Report.DOCX", REPORT.read_bytes())}
    answer = httpx.post(
        f"{documents_server.url}/translate_file", data={"source": "auto", "target": "fr"}, files=files, timeout=60
    )
    address = answer.json()["translatedFileUrl"]
    assert address.startswith(f"{documents_server.url}/download_file/")
    assert BOLD in _text(httpx.get(address).content)
    assert httpx.get(address).status_code == 404


def test_by_deepl_s_client(documents_server: Server, tmp_path: Path) -> None:
    client = deepl.DeepLClient("any", server_url=documents_server.url)
    output = tmp_path / "rapport.docx"
    client.translate_document_from_filepath(REPORT, output, source_lang="EN", target_lang="FR")
    assert BOLD in _text(output.read_bytes())
    handle = client.translate_document_upload(REPORT.read_bytes(), target_lang="FR", filename="report.docx")
    wrong = deepl.DocumentHandle(handle.document_id, "wrong")
    with pytest.raises(deepl.DeepLException):
        client.translate_document_get_status(wrong)
    nameless = io.BytesIO(REPORT.read_bytes())
    with pytest.raises(deepl.DeepLException, match=r"filename: 'file' has no extension.* only with str and bytes"):
        client.translate_document(nameless, io.BytesIO(), target_lang="FR", filename="report.docx")
    status = client.translate_document_wait_until_done(handle)
    assert (status.done, status.billed_characters) == (True, 295)
    client.translate_document_download(handle, io.BytesIO())
    with pytest.raises(deepl.DeepLException):
        client.translate_document_download(handle, io.BytesIO())


@pytest.mark.skipif(not COMPILES, reason="without the C++ operators the bits depend on the batch")
def test_the_death_of_an_engine_changes_no_byte(documents_server: Server) -> None:
    document = _docx(1000)

    def translate(*, kills: bool) -> bytes:
        identifier = _send(documents_server, document).json()["id"]
        if kills:
            while not _wait(documents_server, identifier, "translating")["characters_done"]:
                time.sleep(0.01)
            documents_server.wait_until_busy()
            os.kill(documents_server.wait_for_engine(), signal.SIGKILL)
        _wait(documents_server, identifier)
        return _text(httpx.get(f"{documents_server.url}/documents/{identifier}/result").content).encode()

    undisturbed = translate(kills=False)
    restarts = documents_server.metric("dragoman_engine_restarts_total")
    assert translate(kills=True) == undisturbed
    assert documents_server.metric("dragoman_engine_restarts_total") == restarts + 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_book_takes_little_memory_and_ends_when_it_is_cancelled(start_server: StartServer) -> None:
    book = _docx(1_500)
    with start_server("--replicas", "1") as server:
        httpx.post(f"{server.url}/translate", json={"q": "Yes.", "source": "en", "target": "fr"})
        process = psutil.Process(server.process.pid)
        base = peak = process.memory_info().rss
        identifier = _send(server, book).json()["id"]
        while (state := httpx.get(f"{server.url}/documents/{identifier}").json())["state"] != "done":
            assert state["state"] != "error", state
            peak = max(peak, process.memory_info().rss)
            time.sleep(0.2)
        assert peak - base < 200_000_000
        assert _text(httpx.get(f"{server.url}/documents/{identifier}/result").content).count("<w:b/>") == 1_500
        cancelled = _send(server, book).json()["id"]
        _wait(server, cancelled, "translating")
        httpx.delete(f"{server.url}/documents/{cancelled}")
        server.wait_for_metric("dragoman_slots_used", 0)


def test_a_document_on_the_command_line(documents_server: Server, tmp_path: Path) -> None:
    output = tmp_path / "rapport.docx"
    done = dragoman_here("translate", "--file", str(REPORT), "--output", str(output), "--url", documents_server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert BOLD in _text(output.read_bytes())
    assert list(tmp_path.iterdir()) == [output]


def test_a_directory_on_the_command_line(documents_server: Server, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "a.md").write_text("# Yes.\n")
    (source / "inner" / "b.csv").write_text("id,text\n1,Yes.\n")
    (source / "inner" / "c.md").write_text("[Yes.](../a.md#yes)\n")
    (source / "inner" / "broken.docx").write_text("no")
    (source / "picture.png").write_bytes(b"")
    output = tmp_path / "output"
    arguments = ("--file", str(source), "--output", str(output), "--column", "text")
    done = dragoman_here("translate", *arguments, "--url", documents_server.url)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "dragoman: inner/broken.docx: its content is not docx, as its name says",
        "picture.png: skipped, as its format is not known",
        "3 translated, 1 failed, 1 skipped",
    ]
    (source / "a.md").write_text("# No.\n")
    # No engine is started where nothing is translated.
    again = dragoman_here("translate", *arguments, "--model", "nowhere", "--dry-run").stderr.splitlines()
    assert again[0] == "a.md: 3 characters would be translated"
    assert again[-1] == "1 to translate, 2 unchanged, 1 failed, 1 skipped"
    assert (output / "a.md").read_text() == '# <a id="yes"></a>Oui.\n'
    assert (output / "inner" / "b.csv").read_text() == "id,text\n1,Oui.\n"
    assert not (output / "inner" / "broken.docx").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--file", "a.docx"], "a.docx: a document needs --output"),
        (["--file", "a.pdf", "--output", "b.pdf"], "output_format: must be docx or md"),
        (["--file", "a.docx", "--file", "b.docx", "--output", "c.docx"], "a.docx: give one document"),
        (["--file", "a.docx", "--output", "./a.docx"], "a.docx: is the document itself"),
        (["--file", "a.rtf"], "file: the file extension .rtf is not supported"),
        (["--file", "none.docx", "--output", "c.docx"], "none.docx: No such file"),
        (["--column", "a", "text"], "--column needs --file"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], problem: str, documents_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.docx", "b.docx", "a.pdf"):
        Path(name).write_bytes(b"%PDF" if name == "a.pdf" else REPORT.read_bytes())
    done = dragoman_here("translate", *arguments, "--url", documents_server.url)
    assert done.returncode == 2
    assert done.stderr.startswith(f"dragoman: {problem}")
    assert len(done.stderr.splitlines()) == 1


def test_documents_do_not_outlive_the_server(documents_server: Server, start_server: StartServer, kept: Path) -> None:
    """The last test: the server is killed."""
    identifier = _send(documents_server, _docx(400)).json()["id"]
    _wait(documents_server, identifier, "translating")
    documents_server.process.send_signal(signal.SIGKILL)
    documents_server.process.wait()
    assert len(list(kept.iterdir())) == 1
    with start_server("--documents", str(kept)) as server:
        assert list(kept.iterdir()) == []
        answer = httpx.get(f"{server.url}/documents/{identifier}")
        assert answer.status_code == 404
        assert "the server restarted" in answer.json()["error"]
