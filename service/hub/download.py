"""Downloads of single files: resumed after a cut, checked, moved into place, and decompressed within their size."""

import json
import socket
import time
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx
import zstandard

from model.checkpoint_config import sha256_of
from service.hub.errors import HubError, TemporaryHubError
from service.hub.progress import Progress

_ATTEMPTS: Final = 5
"""A download fails after so many attempts without a single new byte."""
_FIRST_PAUSE_SECONDS: Final = 0.5
"""Doubled after each attempt without a new byte."""
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)
_LARGEST_FILE: Final = 20_000_000_000
"""Limit for files whose size the index does not say."""
_LARGEST_INDEX: Final = 100_000_000
_NAT64: Final = IPv6Network("64:ff9b::/96")
_PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_CHUNK_BYTES: Final = 1 << 20
_LARGEST_DECOMPRESSED: Final = 2_000_000_000
"""Limit for files whose decompressed size the index does not say."""


class RemoteFile(NamedTuple):
    """A file of a model, as its index describes it."""

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None
    named_by: str | None = None
    """The address of the index that names the file; None if a person has named it."""


class _CutError(Exception):
    """A connection that ended too early; the message is the reason."""


def read_json(url: str) -> Any:
    """Return the JSON document at a URL. Raises `HubError`."""
    content = bytearray()
    try:
        with _client(url) as client, client.stream("GET", url) as response:
            _check(response, url)
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _LARGEST_INDEX:
                    raise HubError(f"{url}: is larger than {_LARGEST_INDEX // 1_000_000} MB, too large for an index")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable(url, error) from None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise TemporaryHubError(f"{url}: answers with no JSON{_proxy_hint(bytes(content[:100]))}") from None


def download(file: RemoteFile, directory: Path, progress: Progress) -> Path:
    """Download a file into a directory, or the rest of one that was cut. Raises `HubError` and `OSError`."""
    path = directory / _plain(file)
    if path.exists():
        progress.advance(path.stat().st_size)
        return path
    partial = _Partial(path)
    progress.advance(partial.size)
    failures, pause = 0, _FIRST_PAUSE_SECONDS
    while True:
        before = partial.size
        try:
            _continue(file, partial, progress)
            break
        except (httpx.HTTPError, httpx.InvalidURL, _CutError) as error:
            failures, pause = (0, _FIRST_PAUSE_SECONDS) if partial.size > before else (failures + 1, 2 * pause)
            if failures == _ATTEMPTS or isinstance(error, httpx.InvalidURL):
                raise _unreachable(file.url, error) from None
            time.sleep(pause)
    _verify(file, partial)
    return partial.finish()


class _Partial:
    """An incomplete file, and the ETag of the complete one."""

    def __init__(self, path: Path) -> None:
        self._final = path
        self.path = path.with_name(f"{path.name}.partial")
        self._etag = path.with_name(f"{path.name}.etag")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def etag(self) -> str | None:
        return self._etag.read_text() if self._etag.exists() else None

    def begin(self, etag: str | None) -> None:
        """Start a file from its first byte."""
        self.path.write_bytes(b"")
        if etag and not etag.startswith("W/"):  # a weak ETag may stand for other bytes
            self._etag.write_text(etag)
        else:
            self._etag.unlink(missing_ok=True)

    def finish(self) -> Path:
        self._etag.unlink(missing_ok=True)
        return self.path.rename(self._final)

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._etag.unlink(missing_ok=True)


def _continue(file: RemoteFile, partial: _Partial, progress: Progress) -> None:
    """Read from the end of the partial file to the end of the remote one; raises when the connection is cut."""
    start = partial.size
    if start and start == file.size:
        return
    with (
        _client(file.named_by or file.url) as client,
        client.stream("GET", file.url, headers=_range(file, partial)) as response,
    ):
        if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            progress.advance(-start)
            partial.discard()
            raise _CutError("the file has changed")
        _check(response, file.url)
        if response.headers.get("content-type", "").startswith("text/html"):
            raise TemporaryHubError(f"{file.url}: answers with a web page{_proxy_hint(b'<html')}")
        if response.status_code != HTTPStatus.PARTIAL_CONTENT:
            progress.advance(-start)
            partial.begin(response.headers.get("etag"))
        length = response.headers.get("content-length", "")
        if progress.total is None and length.isdecimal():
            progress.expect(partial.size + int(length))
        most = _LARGEST_FILE if file.size is None else file.size
        with partial.path.open("ab") as output:
            for chunk in response.iter_raw():  # chunks of a given size would lose the last bytes before a cut
                output.write(chunk)
                progress.advance(len(chunk))
                if output.tell() > most:
                    break
    if partial.size > most:
        partial.discard()
        raise TemporaryHubError(f"{file.url}: has more than the {most} bytes that its index says")


def _range(file: RemoteFile, partial: _Partial) -> dict[str, str]:
    """Return the headers that request the missing bytes, or the whole file if nothing proves that it is the same."""
    headers = {"Accept-Encoding": "identity"}
    if partial.size and (partial.etag or file.sha256):
        headers["Range"] = f"bytes={partial.size}-"
        if partial.etag:
            headers["If-Range"] = partial.etag
    return headers


def _verify(file: RemoteFile, partial: _Partial) -> None:
    """Compare a complete file with its index; if they differ, remove the file and raise `TemporaryHubError`."""
    problem = None
    if file.size is not None and partial.size != file.size:
        problem = f"ends after {partial.size} of {file.size} bytes"
    elif file.sha256 is not None and (found := sha256_of(partial.path)) != file.sha256:
        problem = f"has the SHA-256 {found}, its index says {file.sha256}"
    if problem is not None:
        partial.discard()
        raise TemporaryHubError(f"{file.url}: {problem}; nothing of it was kept, try again later")


def _plain(file: RemoteFile) -> str:
    """Return the name of a file. Raises `HubError` if it leads out of its directory."""
    if Path(file.name).name != file.name or file.name.startswith(".") or "\\" in file.name:
        raise HubError(f"{file.url}: its index calls it {file.name!r}, which is not a plain file name")
    return file.name


def _client(named_by: str) -> httpx.Client:
    """Return a client that asks private addresses only where `named_by`, which a person has chosen, is private, too.

    An index, or a redirect, could otherwise have this server ask others in its own network.
    """
    trusted = urlsplit(named_by).hostname

    def check(request: httpx.Request) -> None:
        if request.url.host != trusted and _is_private(request.url.host) and not _is_private(trusted or ""):
            raise HubError(f"{named_by}: leads to {request.url.host}, in a private network, which is not asked")

    return httpx.Client(timeout=_TIMEOUT, follow_redirects=True, event_hooks={"request": [check]})


def _is_private(host: str) -> bool:
    """Return True if a host has an address outside of the public internet; False if it cannot be found."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    return not all(_is_public(ip_address(str(address).partition("%")[0])) for address in found)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return True for an address of the public internet, also as IPv6 wraps those of IPv4."""
    if isinstance(address, IPv6Address):
        inner = address.sixtofour or address.ipv4_mapped
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        address = inner or address
    return address.is_global and not address.is_multicast


def _check(response: httpx.Response, url: str) -> None:
    """Raise `HubError` for a status other than success."""
    if response.is_success:
        return
    status = f"{response.status_code} {response.reason_phrase}".strip()
    passing = response.is_server_error or response.status_code in _PASSING
    raise (TemporaryHubError if passing else HubError)(f"{url}: answers {status}")


def _unreachable(url: str, error: Exception) -> TemporaryHubError:
    host = urlsplit(url).netloc or url
    reason = str(error) or type(error).__name__
    return TemporaryHubError(f"{host} cannot be reached, or cut the connection: {reason} ({url})")


def _proxy_hint(content: bytes) -> str:
    is_page = content.lstrip()[:1] == b"<"
    return ": a proxy's or a login page? Check HTTPS_PROXY and NO_PROXY" if is_page else ""


def decompress(path: Path, output: Path, size: int | None, sha256: str | None, *, is_compressed: bool) -> None:
    """Decompress a file, if it is one of Zstandard, to another one, and check it.

    Raises `HubError`; both files are gone then.
    """
    most = _LARGEST_DECOMPRESSED if size is None else size
    problem: str | None = None
    try:
        with path.open("rb") as packed, output.open("wb") as target:
            content: Any = zstandard.ZstdDecompressor().stream_reader(packed) if is_compressed else packed
            while chunk := content.read(_CHUNK_BYTES):
                target.write(chunk)
                if target.tell() > most:
                    problem = f"decompresses to more than {most} bytes"
                    break
    except zstandard.ZstdError as error:
        problem = f"is damaged: {error}"
    if problem is None and size is not None and output.stat().st_size != size:
        problem = f"decompresses to {output.stat().st_size} bytes, its index says {size}"
    if problem is None and sha256 is not None and (found := sha256_of(output)) != sha256:
        problem = f"decompresses to the SHA-256 {found}, its index says {sha256}"
    if problem is not None:
        output.unlink(missing_ok=True)
        path.unlink()
        raise TemporaryHubError(f"{path.name}: {problem}; nothing of it was kept, try again later")
