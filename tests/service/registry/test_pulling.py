"""The download of public models while a server runs."""

import asyncio
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli.main import app
from service.hub.errors import HubError, TemporaryHubError
from service.hub.names import HubName, HubOptions, parse_name
from service.hub.progress import Report
from service.registry import loading, registry
from service.registry.memory_budget import MemoryBudget
from service.registry.model_version import ModelVersion, State
from service.registry.pulling import pull_in_background
from service.registry.registry import ModelRegistry
from service.registry.scan import FoundModel
from tests.service.hub.servers import FileServer, argos_entry, file_server

NAME = parse_name("argos:en-de")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with file_server() as running:
        yield running


async def test_a_process_pulls_and_reports(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [argos_entry("en", "de", "1.0", f"{server.url}/package", size=9)]
    monkeypatch.setenv("DRAGOMAN_ARGOS_INDEX", server.put_json("/index.json", entries))
    server.put("/package", b"no zip   ")
    reports: list[Report] = []
    with pytest.raises(HubError, match=r"translate-en_de\.argosmodel: a file must be an Argos package") as raised:
        await pull_in_background(NAME, HubOptions(), reports.append)
    assert type(raised.value) is HubError
    assert reports[0].step == "downloading"
    assert reports[-2].step == "importing"


def test_an_import_of_a_pull_has_the_limit_that_is_given(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("translate-en_de-1_0/model/model.bin", bytes(2_000_000))
    entries = [argos_entry("en", "de", "1.0", f"{server.url}/package", size=len(packed.getvalue()))]
    monkeypatch.setenv("DRAGOMAN_ARGOS_INDEX", server.put_json("/index.json", entries))
    server.put("/package", packed.getvalue())
    done = CliRunner().invoke(app, ["pull", str(NAME), "--max-mb=1"])
    assert "has 2 MB unpacked, the limit is 1 MB" in done.stderr


async def test_an_error_says_whether_to_try_again(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_ARGOS_INDEX", f"{server.url}/index.json")
    server.put("/index.json", b"", status=503)
    with pytest.raises(TemporaryHubError, match=rf"^{server.url}/index\.json: answers 503"):
        await pull_in_background(NAME, HubOptions(), lambda report: None)
    with pytest.raises(
        HubError, match=r"^is not here, and offline nothing is downloaded; `dragoman pull argos:en-de` gets it online$"
    ):
        await pull_in_background(NAME, HubOptions(offline=True), lambda report: None)


async def test_a_process_that_dies_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho out of memory >&2\nexit 137\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    with pytest.raises(TemporaryHubError, match="argos:en-de: its download ended with 137; the log says more"):
        await pull_in_background(NAME, HubOptions(), lambda report: None)
    assert "out of memory" in caplog.text


async def test_a_server_that_stops_ends_its_downloads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    pulling = asyncio.create_task(pull_in_background(NAME, HubOptions(), lambda report: None))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    pulling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pulling
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


class Pulls:
    """Attempts to pull that fail, or report something and wait for ever."""

    def __init__(self, *results: Exception | Report) -> None:
        self._results = [*results]
        self.done = asyncio.Event()

    async def __call__(self, name: HubName, options: HubOptions, on_report: Any) -> Path:
        result = self._results.pop(0)
        if isinstance(result, Exception):
            raise result
        on_report(result)
        self.done.set()
        await asyncio.Event().wait()
        raise AssertionError


def _library() -> ModelRegistry:
    def never(found: FoundModel, path: Path) -> Any:
        raise AssertionError

    return ModelRegistry([ModelVersion(FoundModel(str(NAME), NAME, ""), State.DOWNLOADING)], never, MemoryBudget())


async def test_a_download_is_tried_again_and_its_progress_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(NAME)
    pulls = Pulls(TemporaryHubError("no network"), TemporaryHubError("none"), Report(name=name, done=40, total=100))
    monkeypatch.setattr(loading, "pull_in_background", pulls)
    monkeypatch.setattr(registry, "_FIRST_RETRY_SECONDS", 0.0)
    library = _library()
    [version] = library.versions
    library.start()
    async with asyncio.timeout(60):
        await pulls.done.wait()
    assert (version.state, version.downloaded, version.reason) == (State.DOWNLOADING, 0.4, "none")
    assert library.why_not_ready == "downloading argos:en-de: 40 %"
    await library.stop()


async def test_a_model_that_cannot_be_had_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "pull_in_background", Pulls(HubError("nobody has it")))
    monkeypatch.setattr(registry, "_FIRST_RETRY_SECONDS", 0.0)
    library = _library()
    library.start()
    async with asyncio.timeout(60):
        await library._tried.wait()
        await library.wait_until_downloaded()
    [version] = library.versions
    assert (version.state, version.reason) == (State.FAILED, "nobody has it")
    assert library.why_not_ready == "no model can be used: see /models"
    await library.stop()
