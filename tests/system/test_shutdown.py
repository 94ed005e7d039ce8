"""SIGTERM ends the server within its drain and ten seconds, whatever hangs, and nothing of it stays behind."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from service.settings import EMBEDDED_MODEL
from tests.system.caches import imported, make_cache
from tests.system.conftest import Server, children, free_port, run_server
from tests.waiting import wait_for

_DRAIN_SECONDS = 1.0
_FLAGS = ("--drain-seconds", str(_DRAIN_SECONDS))
_PROMISED_SECONDS = _DRAIN_SECONDS + 10

_HANGS = """
import os, signal, sys, threading, time
if "import" in sys.orig_argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)
if "serve" in sys.orig_argv:
    if os.environ.get("HANGS") == "thread":
        threading.Thread(target=time.sleep, args=(1000,)).start()
    signal.signal(signal.SIGUSR1, lambda *_: time.sleep(1000))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which every import hangs, and SIGUSR1 stops the server's event loop."""
    directory = tmp_path / "path"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(_HANGS)
    return {"PYTHONPATH": str(directory), "XDG_CACHE_HOME": str(make_cache(tmp_path / "cache"))}


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A directory of models: a good one, and one that has to be imported first."""
    models = tmp_path / "models"
    shutil.copytree(EMBEDDED_MODEL, models / "en-fr")
    (models / "foreign.argosmodel").write_bytes(b"")
    return models


def _ends(server: Server) -> None:
    """Send SIGTERM and wait for the end of all processes."""
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(_PROMISED_SECONDS) in (0, 1)
    server.wait_until_gone()


def test_an_import_that_hangs_beside_a_running_server(
    environment: dict[str, str], foreign: Path, tmp_path: Path
) -> None:
    with run_server(
        tmp_path / "log", *_FLAGS, "--models", str(foreign), ready=False, environment=environment
    ) as server:
        wait_for(lambda: imported(tmp_path / "cache"))
        _ends(server)
    assert imported(tmp_path / "cache") == []


def test_an_import_that_hangs_before_the_start(environment: dict[str, str], foreign: Path, tmp_path: Path) -> None:
    model = foreign / "foreign.argosmodel"
    with run_server(tmp_path / "log", *_FLAGS, "--model", str(model), ready=False, environment=environment) as server:
        zygote_and_import = 2
        wait_for(lambda: imported(tmp_path / "cache") and len(children(server.process.pid)) == zygote_and_import)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(_PROMISED_SECONDS) == 128 + signal.SIGTERM
        server.wait_until_gone()
    assert imported(tmp_path / "cache") == []
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_thread_that_hangs(environment: dict[str, str], tmp_path: Path) -> None:
    with run_server(tmp_path / "log", *_FLAGS, environment=environment | {"HANGS": "thread"}) as server:
        _ends(server)
        assert server.process.returncode == 1
    assert "the shutdown takes too long" in (tmp_path / "log").read_text()


def test_an_event_loop_that_hangs(environment: dict[str, str], tmp_path: Path) -> None:
    with run_server(tmp_path / "log", *_FLAGS, environment=environment) as server:
        server.process.send_signal(signal.SIGUSR1)
        with pytest.raises(httpx.TimeoutException):
            httpx.get(f"{server.url}/livez", timeout=1)
        _ends(server)


@pytest.mark.parametrize(
    "stuck", ["all", *(pytest.param(each, marks=pytest.mark.slow) for each in ("engines", "fork server", "zygote"))]
)
def test_processes_that_are_stuck(stuck: str, tmp_path: Path) -> None:
    with run_server(tmp_path / "log", *_FLAGS, "--replicas", "2") as server:
        pids = {"engines": server.engine_pids(), "fork server": server.fork_servers(), "zygote": server.zygotes()}
        assert all(pids.values())
        for kind in pids if stuck == "all" else [stuck]:
            for pid in pids[kind]:
                os.kill(pid, signal.SIGSTOP)
        _ends(server)


def test_a_killed_server_is_started_again_on_its_port_at_once(tmp_path: Path) -> None:
    """Its engines, which are stopped here, cannot keep the port: no other process has the socket."""
    port = free_port()
    with run_server(tmp_path / "log", port=port) as server, _clients(port):
        for pid in (*server.engine_pids(), *server.forking_pids()):
            os.kill(pid, signal.SIGSTOP)
        server.process.kill()
        server.process.wait()
        assert server.has_processes()
        with run_server(tmp_path / "again", port=port) as again:
            answer = httpx.post(f"{again.url}/translate", json={"q": "I see a cat.", "source": "en", "target": "fr"})
            assert answer.json() == {"translatedText": "Je vois un chat."}
        os.killpg(server.process.pid, signal.SIGKILL)


@contextmanager
def _clients(port: int) -> Iterator[None]:
    """Clients that are connected while the server dies: their connections still have its port."""
    with ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        yield
