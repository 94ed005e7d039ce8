"""Mozilla's native engine behind LibreTranslate's route: run by a Python that has `fxtranslate` installed.

    python fxtranslate_server.py PORT DIRECTORY

DIRECTORY has one direction's files as Firefox downloads them, the shortlist among them. The engine translates one
sentence at a time and keeps to its thread, so there is a process with an engine for each core.
"""

import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

engine: Any


def load(directory: Path) -> None:
    """Make this process an engine."""
    global engine
    from fxtranslate import Translator

    [model] = directory.glob("model.*.bin")
    [shortlist] = directory.glob("lex.*.bin")
    vocabularies = sorted(directory.glob("*vocab.*.spm"))  # srcvocab, trgvocab; or one for both
    source, target = (vocabularies[index].read_bytes() for index in (0, -1))
    engine = Translator(model.read_bytes(), source, target, shortlist.read_bytes())


def translate(text: str) -> str:
    """Translate one sentence in an engine's process."""
    translated: str = engine.translate(text)
    return translated


class Server(ThreadingHTTPServer):
    """Accepts as many clients at once as a comparison has."""

    request_queue_size = 128


class Handler(BaseHTTPRequestHandler):
    """Answers each request by a free process."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    engines: ProcessPoolExecutor

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = self.engines.submit(translate, request["q"]).result()
        body = json.dumps({"translatedText": text}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def main() -> None:
    port, directory = sys.argv[1:]
    cores = len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    Handler.engines = ProcessPoolExecutor(cores, context, load, (Path(directory),))
    Server(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
