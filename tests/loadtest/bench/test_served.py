"""The comparison over HTTP counts what it was given, with a stand-in for both servers."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from loadtest.bench.contenders import fxtranslate
from loadtest.bench.served import Run, Served, _closed_loop, _compared, _started, main
from tests.conftest import one_line


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list[dict[str, Any]]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append(request)
        answer = json.dumps({"translatedText": request["q"].upper()}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def echo() -> Iterator[Served]:
    _Echo.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    fields = {"source": "zh", "target": "en", "beam_size": 4}
    yield Served(f"http://127.0.0.1:{server.server_address[1]}", fields, 0)
    server.shutdown()
    thread.join()
    server.server_close()


async def test_every_line_is_measured_once_and_kept_in_its_place(echo: Served) -> None:
    texts = [f"line {i}" for i in range(40)]
    run = await _closed_loop(echo, texts, 8)
    assert run.texts == [text.upper() for text in texts]
    assert len(run.latencies) == 40
    first = [texts[0]] * 8  # of each client, so that its connection is there
    assert sorted(each["q"] for each in _Echo.seen) == sorted([*first, *texts])
    assert all((each["source"], each["target"], each["beam_size"]) == ("zh", "en", 4) for each in _Echo.seen)


def test_equal_texts_and_bleu_are_of_the_same_lines() -> None:
    runs = {
        "dragoman": Run(1.0, [], ["The cat sat on the mat.", "No one came.", "More"]),
        "libretranslate": Run(1.0, [], ["The cat sat on the mat。", "Nobody came at all."]),
    }
    assert "bleu" not in _compared(runs, [["x"], ["y"]], ".!。")
    compared = _compared(runs, [["x", "The cat sat on the mat."], ["y", "No one came!"]], ".!。")
    assert compared["same_text"] == 0.5
    assert compared["bleu"]["dragoman"] == pytest.approx(100.0)
    assert compared["bleu"]["libretranslate"] < 90


@pytest.fixture
def firefox_files(tmp_path: Path) -> Path:
    directory = tmp_path / "enpt"
    directory.mkdir()
    for name in ("model.enpt.intgemm.alphas.bin", "vocab.enpt.spm", "lex.50.50.enpt.s2t.bin"):
        (directory / name).write_text(name)
    return directory


NATIVE = """
class Translator:
    def __init__(self, *files):
        self.files = b" ".join(files).decode()
    def translate(self, text):
        return f"{text}: {self.files}"
"""


async def test_the_native_engine_gets_its_files(firefox_files: Path, tmp_path: Path) -> None:
    (tmp_path / "fxtranslate.py").write_text(NATIVE)
    [_, engine] = fxtranslate(firefox_files, Path(sys.executable), []).contenders
    with _started(engine._replace(environment={"PYTHONPATH": str(tmp_path)})) as served:
        run = await _closed_loop(served, ["one", "two"], 2)
    files = "model.enpt.intgemm.alphas.bin vocab.enpt.spm vocab.enpt.spm lex.50.50.enpt.s2t.bin"
    assert run.texts == [f"one: {files}", f"two: {files}"]


@pytest.mark.parametrize(
    ("against", "named"),
    [
        ("moses=python", "NAME one of: libretranslate, fxtranslate"),
        ("fxtranslate", "must be NAME=PROGRAM"),
        ("fxtranslate=python", "has 0 files like model.enpt"),
    ],
)
def test_what_cannot_be_compared_is_refused(against: str, named: str, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, [str(tmp_path), "sentences.txt", "--against", against])
    assert result.exit_code == 2
    assert named in one_line(result.stderr)
