"""Small servers on loopback that speak the routes of Hugging Face's hub, of Argos' index and of Mozilla's."""

import hashlib
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Answer:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    """Bytes after which the connection is cut, of the next answers in turn."""
    gate: threading.Event | None = None
    """The second half of the body waits for it."""

    @property
    def etag(self) -> str:
        return self.headers.get("ETag", f'"{hashlib.sha256(self.body).hexdigest()}"')


class FileServer(ThreadingHTTPServer):
    """Answers by path; remembers the requests."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), _Handler)
        self.host = host
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report errors except those of clients that have left."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.server_port}"

    def put(self, path: str, body: bytes, **options: Any) -> Answer:
        self.answers[path] = Answer(body, **options)
        return self.answers[path]

    def put_json(self, path: str, content: Any) -> str:
        """Publish a document; return its address."""
        self.put(path, json.dumps(content).encode(), headers={"Content-Type": "application/json"})
        return f"{self.url}{path}"

    def gets(self, path: str) -> list[dict[str, str]]:
        """Return the headers of the GET requests for a path."""
        return [headers for method, each, headers in self.requests if (method, each) == ("GET", path)]


class _Handler(BaseHTTPRequestHandler):
    server: FileServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None: ...

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        self.server.requests.append((self.command, path, {name.lower(): value for name, value in self.headers.items()}))
        answer = self.server.answers.get(path)
        if answer is None:
            answer = Answer(b"none", 404, {"X-Error-Code": "RepoNotFound"} if path.startswith("/api/") else {})
        start, status = 0, answer.status
        wanted = self.headers.get("Range")
        if wanted and status == 200 and self.headers.get("If-Range", answer.etag) == answer.etag:
            start, status = int(wanted.removeprefix("bytes=").rstrip("-")), 206
            if start >= len(answer.body):
                status = 416
        body = b"" if status == 416 else answer.body[start:]
        self.send_response(status)
        for name, value in {"ETag": answer.etag, **answer.headers}.items():
            self.send_header(name, value)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(answer.body) - 1}/{len(answer.body)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self._write(body, answer)

    def _write(self, body: bytes, answer: Answer) -> None:
        if answer.cuts:
            self.wfile.write(body[: answer.cuts.pop(0)])
            self.close_connection = True
            return
        if answer.gate is not None:
            half = len(body) // 2
            self.wfile.write(body[:half])
            self.wfile.flush()
            answer.gate.wait(60)
            body = body[half:]
        self.wfile.write(body)


@contextmanager
def file_server(host: str = "127.0.0.1") -> Iterator[FileServer]:
    with FileServer(host) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def publish_repository(
    server: FileServer,
    name: str,
    files: Mapping[str, bytes],
    *,
    commit: str = COMMIT,
    licence: str | None = "cc-by-4.0",
) -> None:
    """Publish a model as Hugging Face's hub does; files of weights are stored with Git LFS."""
    siblings = []
    for file, body in files.items():
        blob = hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
        sha256 = hashlib.sha256(body).hexdigest()
        is_large = file.endswith((".safetensors", ".bin"))
        large = {"lfs": {"sha256": sha256, "size": len(body), "pointerSize": 130}} if is_large else {}
        siblings.append({"rfilename": file, "size": len(body), "blobId": blob, **large})
        headers = {"X-Repo-Commit": commit, "ETag": f'"{sha256 if is_large else blob}"'}
        server.put(f"/{name}/resolve/{commit}/{file}", body, headers=headers)
    card = {} if licence is None else {"cardData": {"license": licence}}
    info = {"id": name, "sha": commit, "private": False, "tags": [], "siblings": siblings, **card}
    for path in ("", "/revision/main", f"/revision/{commit}"):
        server.put_json(f"/api/models/{name}{path}", info)


def argos_entry(source: str, target: str, version: str, *links: str, **more: Any) -> dict[str, Any]:
    """Return an entry of Argos' index."""
    return {
        "package_version": version,
        "argos_version": "1.9.0",
        "from_code": source,
        "from_name": source,
        "to_code": target,
        "to_name": target,
        "links": [*links],
        **more,
    }


def publish_firefox(server: FileServer, records: Sequence[Mapping[str, Any]]) -> str:
    """Publish records as Remote Settings does; return the address of the collection."""
    server.put_json("/v1/", {"capabilities": {"attachments": {"base_url": f"{server.url}/files/"}}})
    return server.put_json("/v1/buckets/main/collections/translations-models-v2/records", {"data": [*records]})


def firefox_record(
    server: FileServer, pair: str, kind: str, content: bytes, packed: bytes, suffix: str, **changes: Any
) -> dict[str, Any]:
    """Publish a file and return its record."""
    source, _, target = pair.partition("-")
    name = {"model": f"model.{source}{target}.intgemm.alphas.bin", "lex": f"lex.50.50.{source}{target}.s2t.bin"}.get(
        kind, f"{kind}.{source}{target}.spm"
    )
    version, architecture = changes.get("version", "3.0"), changes.get("architecture", "tiny")
    location = f"{pair}/{architecture}/{version}/{name}{suffix}"
    server.put(f"/files/{location}", packed)
    return {
        "name": name,
        "sourceLanguage": source,
        "targetLanguage": target,
        "architecture": "tiny",
        "version": "3.0",
        "fileType": kind,
        "filter_expression": "",
        "decompressedSize": len(content),
        "decompressedHash": hashlib.sha256(content).hexdigest(),
        "attachment": {
            "filename": f"{name}{suffix}",
            "location": location,
            "hash": hashlib.sha256(packed).hexdigest(),
            "mimetype": "application/zstd" if suffix else "application/octet-stream",
            "size": len(packed),
        },
        **changes,
    }
