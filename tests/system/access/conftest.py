"""A server with a key for each kind of limit."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from service.access.key_store import KeyLimits, KeyStore
from tests.system.conftest import Server, run_server

REQUEST = {"source": "en", "target": "fr"}
TEXT = "I see a cat."
TRANSLATED = "Je vois un chat."
LIMITS: Mapping[str, KeyLimits] = {
    "free": KeyLimits(),
    "ten": KeyLimits(requests_per_minute=10),
    "thirty": KeyLimits(requests_per_minute=30),
    "stream": KeyLimits(streams=1),
    "quota": KeyLimits(characters_per_month=30),
    "live quota": KeyLimits(characters_per_month=30),
    "documents": KeyLimits(characters_per_month=600),
}


class KeyedServer:
    def __init__(self, server: Server, keys: Mapping[str, str], path: Path) -> None:
        self.server = server
        self.url = server.url
        self.keys = keys
        self.path = path
        """The file of the keys."""


@pytest.fixture(scope="package")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    """A server with a key for each of LIMITS, and with glossaries."""
    directory = tmp_path_factory.mktemp("keyed")
    path = directory / "keys.db"
    with closing(KeyStore(path, create=True)) as file:
        keys = {name: file.add(name, limits) for name, limits in LIMITS.items()}
    flags = ("--keys", str(path), "--cors-origins", "https://a.example", "--log-level", "debug")
    with run_server(directory / "log", *flags, "--glossaries", str(directory / "glossaries")) as server:
        yield KeyedServer(server, keys, path)
