"""Downloads that are cut, damaged, or not what their index says."""

import hashlib
from pathlib import Path

import pytest

from service.hub.download import RemoteFile, download, read_json
from service.hub.errors import HubError, TemporaryHubError, is_full_disk
from service.hub.progress import Progress
from tests.disks import SmallDisk
from tests.service.hub.servers import FileServer

BODY = bytes(range(256)) * 4096
SUM = hashlib.sha256(BODY).hexdigest()


def _file(server: FileServer, *, size: int | None = len(BODY), sha256: str | None = SUM) -> RemoteFile:
    return RemoteFile("model.bin", f"{server.url}/f", size, sha256)


def test_a_file_is_downloaded_once(server: FileServer, tmp_path: Path) -> None:
    server.put("/f", BODY)
    progress = Progress()
    path = download(_file(server), tmp_path, progress)
    assert path.read_bytes() == BODY
    assert progress.done == len(BODY)
    assert download(_file(server), tmp_path, progress) == path
    assert len(server.requests) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["model.bin"]


@pytest.mark.parametrize("sha256", [SUM, None])
def test_a_download_that_is_cut_twice_is_resumed(sha256: str | None, server: FileServer, tmp_path: Path) -> None:
    server.put("/f", BODY, cuts=[300_000, 100_000])
    progress = Progress()
    assert download(_file(server, size=None, sha256=sha256), tmp_path, progress).read_bytes() == BODY
    assert (progress.done, progress.total) == (len(BODY), len(BODY))
    first, second, third = server.gets("/f")
    assert "range" not in first
    assert second["range"] == "bytes=300000-"
    assert third["range"] == "bytes=400000-"
    assert second["if-range"] == third["if-range"] == f'"{SUM}"'


@pytest.mark.parametrize(
    ("body", "headers"),
    [(BODY, {}), (BODY[::-1], {}), (BODY[:1000], {"ETag": '"same"'})],
    ids=["the same file", "another one", "a shorter one"],
)
def test_a_later_process_goes_on_where_an_earlier_one_was_cut(
    body: bytes, headers: dict[str, str], server: FileServer, tmp_path: Path
) -> None:
    """A file that has changed meanwhile is read from its start."""
    file = _file(server, sha256=None, size=None)
    server.put("/f", BODY, cuts=[300_000, 0, 0, 0, 0, 0], headers=headers)
    with pytest.raises(TemporaryHubError, match=r"127\.0\.0\.1:\d+ cannot be reached, or cut the connection"):
        download(file, tmp_path, Progress())
    server.put("/f", body, headers=headers)
    progress = Progress()
    assert download(file, tmp_path, progress).read_bytes() == body
    assert server.gets("/f")[6]["range"] == "bytes=300000-"
    assert progress.done == len(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (BODY[:-1] + b"x", f"/f: has the SHA-256 {hashlib.sha256(BODY[:-1] + b'x').hexdigest()}, its index says {SUM}"),
        (BODY[:5000], "/f: ends after 5000 of 1048576 bytes; nothing of it was kept"),
        (BODY + b"x", "/f: has more than the 1048576 bytes that its index says"),
    ],
)
def test_a_file_that_is_not_the_one_of_the_index(body: bytes, message: str, server: FileServer, tmp_path: Path) -> None:
    server.put("/f", body)
    with pytest.raises(TemporaryHubError, match=message):
        download(_file(server), tmp_path, Progress())
    assert not list(tmp_path.iterdir())
    server.put("/f", BODY)
    assert download(_file(server), tmp_path, Progress()).read_bytes() == BODY


@pytest.mark.parametrize(
    ("status", "kind"), [(404, HubError), (403, HubError), (429, TemporaryHubError), (503, TemporaryHubError)]
)
def test_a_status_is_reported(status: int, kind: type[HubError], server: FileServer, tmp_path: Path) -> None:
    server.put("/f", b"none", status=status)
    with pytest.raises(HubError, match=rf"^{server.url}/f: answers {status} ") as raised:
        download(_file(server), tmp_path, Progress())
    assert type(raised.value) is kind


def test_a_web_page_is_no_model(server: FileServer, tmp_path: Path) -> None:
    server.put("/f", b"<html>sign in</html>", headers={"Content-Type": "text/html; charset=utf-8"})
    with pytest.raises(TemporaryHubError, match=r"/f: answers with a web page: a proxy's or a login page\?"):
        download(_file(server), tmp_path, Progress())
    with pytest.raises(TemporaryHubError, match=r"/f: answers with no JSON: a proxy's or a login page\?"):
        read_json(f"{server.url}/f")
    assert not list(tmp_path.iterdir())


def test_a_host_that_does_not_answer(server: FileServer, tmp_path: Path) -> None:
    host = f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    with pytest.raises(TemporaryHubError, match=f"^{host} cannot be reached"):
        download(_file(server), tmp_path, Progress())
    with pytest.raises(TemporaryHubError, match=f"^{host} cannot be reached"):
        read_json(f"http://{host}/index.json")


@pytest.mark.parametrize("name", ["../model.bin", "/model.bin", "a/b", ".hidden", "..", "a\\b"])
def test_a_name_that_leaves_the_directory(name: str, server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(HubError, match="which is not a plain file name"):
        download(RemoteFile(name, f"{server.url}/f"), tmp_path, Progress())
    assert not server.requests


def test_an_index_that_is_too_deep(server: FileServer) -> None:
    server.put("/f", b"[" * 1_000_000)
    with pytest.raises(TemporaryHubError, match=r"/f: answers with no JSON$"):
        read_json(f"{server.url}/f")


def test_an_index_without_end(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.hub.download._LARGEST_INDEX", 1000)
    server.put("/f", b"[" * 2000)
    with pytest.raises(HubError, match="too large for an index"):
        read_json(f"{server.url}/f")


def test_a_full_disk(server: FileServer, disk: SmallDisk) -> None:
    server.put("/f", BODY * 2)
    with pytest.raises(OSError, match="No space left") as raised:
        download(RemoteFile("model.bin", f"{server.url}/f"), disk.path, Progress())
    assert is_full_disk(raised.value)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "64:ff9b::a00:1", "2002:7f00:1::", "224.0.0.1"]
)
def test_a_public_index_does_not_lead_to_private_addresses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    def addresses(host: str, port: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", ("203.0.114.1" if host == "index.example" else address, 0))]

    monkeypatch.setattr("socket.getaddrinfo", addresses)
    file = RemoteFile("model.bin", "http://other.example/f", 1, None, "https://index.example/index.json")
    with pytest.raises(HubError, match="in a private network, which is not asked"):
        download(file, tmp_path, Progress())


def test_a_private_index_may_name_files_of_its_network(server: FileServer, tmp_path: Path) -> None:
    server.put("/f", BODY)
    file = _file(server)._replace(named_by="http://localhost/index.json")
    assert download(file, tmp_path, Progress()).read_bytes() == BODY
