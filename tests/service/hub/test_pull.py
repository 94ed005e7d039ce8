"""Pulling: several processes, no network, an importer that refuses, a disk without room."""

import errno
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from model.checkpoint_config import ANY, CheckpointError, LanguageHint, load_config
from model.tokenizer import Tokenizer
from service.hub.errors import HubError, TemporaryHubError
from service.hub.names import HubOptions, parse_name
from service.hub.progress import Progress
from service.hub.pull import Hub
from service.hub.store import Store
from tests.service.hub.servers import FileServer, argos_entry
from tests.system.models import write_model

NAME = parse_name("argos:en-de")
PACKAGE = bytes(200_000)


class Importer:
    """An importer that checks what it gets and makes a small model, or fails."""

    def __init__(self, tokenizer: Tokenizer, directory: Path) -> None:
        self.calls = 0
        self.error: Exception | None = None
        self._tokenizer = tokenizer
        self._directory = directory

    def __call__(self, path: Path, languages: LanguageHint) -> Path:
        assert path.read_bytes() == PACKAGE
        assert languages == ANY
        self.calls += 1
        if self.error is not None:
            raise self.error
        made = self._directory / f"made-{self.calls}"
        write_model(made, self._tokenizer, "en-de")
        return made


class Setting(NamedTuple):
    server: FileServer
    store: Store
    importer: Importer
    options: HubOptions

    def pull(self, *, refresh: bool = True, offline: bool = False, progress: Progress | None = None) -> Path:
        options = HubOptions(offline, argos_index=self.options.argos_index)
        return Hub(options).pull(NAME, self.importer, progress or Progress(), refresh=refresh)

    def publish(self, *versions: str) -> None:
        entries = [argos_entry("en", "de", version, f"{self.server.url}/{version}") for version in versions]
        self.server.put_json("/index.json", entries)
        for version in versions:
            self.server.put(f"/{version}", PACKAGE)

    def left(self) -> list[str]:
        """Return the names of files and directories in the cache, except locks."""
        paths = (path.relative_to(self.root) for path in self.root.rglob("*"))
        return sorted(
            str(path) for path in paths if path.parts[0] not in (".locks", ".downloads") or len(path.parts) > 2
        )

    @property
    def root(self) -> Path:
        return self.store._root


@pytest.fixture
def setting(server: FileServer, store: Store, tokenizer: Tokenizer, tmp_path: Path) -> Setting:
    options = HubOptions(argos_index=f"{server.url}/index.json")
    made = Setting(server, store, Importer(tokenizer, tmp_path), options)
    made.publish("1.0")
    return made


def test_a_model_is_pulled_with_its_origin_and_sums(setting: Setting) -> None:
    steps: list[str] = []
    progress = Progress(lambda progress: steps.append(progress.step))
    path = setting.pull(progress=progress)
    origin = load_config(path).origin
    assert origin is not None
    assert (origin.name, origin.revision, origin.url) == ("argos:en-de", "1.0", f"{setting.server.url}/1.0")
    assert origin.sha256.keys() == {"translate-en_de.argosmodel"}
    assert list(dict.fromkeys(steps)) == ["downloading", "importing"]
    assert not [name for name in setting.left() if name.startswith(".downloads")]


def test_a_model_that_is_here_needs_no_network(setting: Setting) -> None:
    path = setting.pull()
    setting.server.requests.clear()
    assert setting.pull(refresh=False) == path
    assert setting.pull(offline=True) == path
    assert not setting.server.requests
    assert setting.pull() == path
    assert [each for _, each, _ in setting.server.requests] == ["/index.json"]
    assert setting.importer.calls == 1


def test_a_newer_version_is_pulled_beside_the_older(setting: Setting) -> None:
    older = setting.pull()
    setting.publish("1.0", "1.1")
    assert setting.pull(refresh=False) == older
    newer = setting.pull()
    assert setting.pull(refresh=False) == newer != older
    assert older.exists()


def test_offline_what_is_missing_is_named(setting: Setting) -> None:
    with pytest.raises(HubError, match=r"^argos:en-de: is not here, and offline nothing is downloaded; `dragoman pull"):
        setting.pull(offline=True)
    assert not setting.server.requests


def test_several_processes_download_once(setting: Setting) -> None:
    """Threads have locks of their own here, as processes have."""
    gate = threading.Event()
    setting.server.answers["/1.0"].gate = gate
    waiting = threading.Event()

    def note(progress: Progress) -> None:
        if progress.step == "waiting for another process":
            waiting.set()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(setting.pull, refresh=False)
        while not setting.server.gets("/1.0"):
            time.sleep(0.005)
        second = threads.submit(setting.pull, refresh=False, progress=Progress(note))
        assert waiting.wait(60)
        gate.set()
        assert first.result() == second.result()
    assert len(setting.server.gets("/1.0")) == setting.importer.calls == 1


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            CheckpointError("model.bin: not supported: a; b"),
            CheckpointError,
            "^argos:en-de: model.bin: not supported: a; b$",
        ),
        (
            OSError(errno.ENOSPC, "full"),
            TemporaryHubError,
            "^argos:en-de: the disk of the cache is full; nothing was kept$",
        ),
        (OSError(errno.EACCES, "forbidden"), TemporaryHubError, "^argos:en-de: .*forbidden"),
    ],
)
def test_nothing_is_kept_of_a_model_that_cannot_be_imported(
    error: Exception, kind: type[Exception], message: str, setting: Setting
) -> None:
    setting.importer.error = error
    with pytest.raises(kind, match=message):
        setting.pull()
    assert not setting.left()


def test_a_disk_that_has_no_room_is_noticed_before_the_download(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = argos_entry("en", "de", "1.0", f"{setting.server.url}/1.0", size=10**18)
    setting.server.put_json("/index.json", [entry])
    with pytest.raises(
        TemporaryHubError, match=r"^argos:en-de: the disk of the cache is full; the download alone takes"
    ):
        setting.pull()
    assert not setting.server.gets("/1.0")
    assert not setting.left()


def test_files_are_given_to_an_import_elsewhere_even_if_the_model_is_here(setting: Setting) -> None:
    setting.pull()
    with Hub(setting.options).files(NAME, Progress()) as download:
        assert download.path.read_bytes() == PACKAGE
        assert download.origin.name == "argos:en-de"
    assert not download.path.exists()
