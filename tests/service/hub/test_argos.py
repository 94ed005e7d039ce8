"""Argos' index."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from service.hub import argos
from service.hub.errors import HubError, TemporaryHubError
from service.hub.names import HubOptions, parse_name
from service.hub.progress import Progress
from tests.service.hub.servers import FileServer, argos_entry

PACKAGE = b"a package"


@pytest.fixture
def options(server: FileServer) -> HubOptions:
    links = (f"ipfs://{'Q' * 46}", f"{server.url}/old", f"{server.url}/new")
    entries: list[Any] = [
        argos_entry("en", "de", "1.9", f"{server.url}/1.9"),
        argos_entry("en", "de", "1.10", *links),
        argos_entry("de", "en", "1.0", f"{server.url}/1.0"),
        argos_entry("en", "fr", "1.0"),  # without a link
        argos_entry("../..", "fr", "1.0", f"{server.url}/x"),
        argos_entry("xx", "yy", "1.0", f"{server.url}/x", type="sbd"),
        {"code": "translate_sbd"},
        "no entry",
    ]
    return HubOptions(argos_index=server.put_json("/index.json", entries))


def test_the_newest_version_of_each_direction_is_listed(options: HubOptions) -> None:
    found = {str(each.name): each for each in argos.listings(options)}
    assert {name: each.revision for name, each in found.items()} == {"argos:en-de": "1.10", "argos:de-en": "1.0"}
    assert found["argos:en-de"][1:3] == ("en", "de")


@pytest.mark.parametrize(("name", "revision"), [("argos:en-de", "1.10"), ("argos:en-de@1.9", "1.9")])
def test_a_version_is_found(name: str, revision: str, options: HubOptions) -> None:
    origin = argos.release(parse_name(name), options).origin
    assert (origin.name, origin.revision, origin.licence) == ("argos:en-de", revision, None)


def test_the_first_link_that_works_is_taken(options: HubOptions, server: FileServer, tmp_path: Path) -> None:
    server.put("/new", PACKAGE)
    files = argos.release(parse_name("argos:en-de"), options).fetch(tmp_path, Progress())
    assert files.path.read_bytes() == PACKAGE
    assert files.path.name == "translate-en_de.argosmodel"
    assert files.sha256 == {files.path.name: hashlib.sha256(PACKAGE).hexdigest()}


def test_every_link_that_fails_is_named(options: HubOptions, server: FileServer, tmp_path: Path) -> None:
    server.put("/new", b"", status=503)
    with pytest.raises(TemporaryHubError, match=r"/old: answers 404 Not Found; .*/new: answers 503"):
        argos.release(parse_name("argos:en-de"), options).fetch(tmp_path, Progress())


def test_an_index_may_have_sums(server: FileServer, tmp_path: Path) -> None:
    server.put("/package", PACKAGE)
    entry = argos_entry("en", "de", "1.0", f"{server.url}/package", size=len(PACKAGE), sha256="0" * 64)
    options = HubOptions(argos_index=server.put_json("/index.json", [entry]))
    with pytest.raises(TemporaryHubError, match=r"/package: has the SHA-256 .*, its index says 0000"):
        argos.release(parse_name("argos:en-de"), options).fetch(tmp_path, Progress())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("argos:en-it", "argos:en-it: Argos' index has no such direction; `dragoman models --available argos`"),
        ("argos:en-de@2.0", "argos:en-de@2.0: Argos' index has no such version, but 1.9, 1.10"),
    ],
)
def test_what_nobody_has(name: str, message: str, options: HubOptions) -> None:
    with pytest.raises(HubError, match=f"^{message}") as raised:
        argos.release(parse_name(name), options)
    assert type(raised.value) is HubError


def test_something_else_than_an_index(server: FileServer) -> None:
    options = HubOptions(argos_index=server.put_json("/index.json", {"data": []}))
    with pytest.raises(HubError, match=r"/index\.json: is not Argos' index"):
        argos.listings(options)
