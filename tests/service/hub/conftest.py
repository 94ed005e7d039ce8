from collections.abc import Iterator
from pathlib import Path

import pytest

from service.hub import download
from service.hub.store import Store
from tests.service.hub.servers import FileServer, file_server


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Store()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_FIRST_PAUSE_SECONDS", 0.0)
