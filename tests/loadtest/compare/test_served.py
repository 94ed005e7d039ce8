"""The comparison over HTTP counts what it was given, with a stand-in for both servers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from loadtest.compare.served import Run, Served, _closed_loop, _compared


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
    yield Served(f"http://127.0.0.1:{server.server_address[1]}", "zh", "en", 0)
    server.shutdown()
    thread.join()
    server.server_close()


async def test_every_line_is_translated_once_and_kept_in_its_place(echo: Served) -> None:
    texts = [f"line {i}" for i in range(40)]
    run = await _closed_loop(echo, texts, 8, {"beam_size": 4})
    assert run.texts == [text.upper() for text in texts]
    assert len(run.latencies) == 40
    assert sorted(each["q"] for each in _Echo.seen) == sorted(texts)
    assert all((each["source"], each["target"], each["beam_size"]) == ("zh", "en", 4) for each in _Echo.seen)


def test_equal_texts_and_bleu_are_of_the_same_lines() -> None:
    runs = {
        "dragoman": Run(1.0, [], ["The cat sat on the mat.", "No one came.", "More"]),
        "libretranslate": Run(1.0, [], ["The cat sat on the mat。", "Nobody came at all."]),
    }
    assert "bleu" not in _compared(runs, [["x"], ["y"]])
    compared = _compared(runs, [["x", "The cat sat on the mat."], ["y", "No one came!"]])
    assert compared["same_text"] == 0.5
    assert compared["bleu"]["dragoman"] == pytest.approx(100.0)
    assert compared["bleu"]["libretranslate"] < 90
