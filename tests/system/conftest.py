"""Real servers: `dragoman serve` in its own process, with the embedded English-French model."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import httpx
import pytest

from service.settings import EMBEDDED_MODEL
from tests.system import launcher
from tests.system.documented import DocumentedStatuses
from tests.waiting import wait_for

START_SECONDS = 180.0
ENGINE_TIMEOUT = "service.server.composition.ENGINE_TIMEOUT_SECONDS"
POLL = "service.registry.registry.POLL_SECONDS"
KEEP_ALIVE = "service.api.sse.KEEP_ALIVE_SECONDS"
COMPILES = shutil.which("c++") is not None
"""The C++ operators give each int8 request the same bits in any batch; PyTorch's rounding depends on its shape."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A running `dragoman serve`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.log = log

    def client(self, timeout: float = 60, **options: Any) -> httpx.AsyncClient:
        """Return a client that opens a connection for each request.

        One that the server closes for idleness just as it is used again would look like a request that was lost.
        """
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        return httpx.AsyncClient(base_url=self.url, timeout=timeout, limits=limits, **options)

    def ask(self, q: str | list[str], source: str, target: str, **options: object) -> httpx.Response:
        """Return the response to a request for a translation."""
        return httpx.post(
            f"{self.url}/translate", json={"q": q, "source": source, "target": target} | options, timeout=60
        )

    def translated(self, q: str | list[str], source: str, target: str, **options: object) -> Any:
        """Return the answer to a request that must be served."""
        answer = self.ask(q, source, target, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            try:
                return httpx.get(f"{self.url}/readyz").status_code == 200
            except httpx.TransportError:
                return False

        wait_for(is_ready, pause=0.05, otherwise=self.log.read_text)

    def metric(self, name: str, labels: str = "") -> float:
        """A sample's value, summed over its label sets that contain `labels`."""
        return self.sample(self.scrape(), name, labels)

    def scrape(self) -> str:
        return httpx.get(f"{self.url}/metrics").text

    @staticmethod
    def sample(exposition: str, name: str, labels: str = "") -> float:
        """Return a metric of an exposition that was scraped before, for several values of one moment."""
        lines = exposition.splitlines()
        samples = [line.rsplit(" ", 1) for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(value) for key, value in samples if labels in key)

    def wait_for_metric(self, name: str, expected: float, labels: str = "", seconds: float = 10.0) -> None:
        def difference() -> str:
            return f"{name} is {self.metric(name, labels)}, expected {expected}"

        wait_for(lambda: self.metric(name, labels) == expected, seconds, otherwise=difference)

    def wait_for_more(self, name: str, before: float) -> None:
        """Wait until a counter has grown."""
        wait_for(lambda: self.metric(name) > before, pause=0.002)

    def wait_until_busy(self) -> None:
        """Wait until an engine decodes something."""
        with httpx.Client(base_url=self.url) as client:  # one connection: some work is done within milliseconds
            wait_for(lambda: self.sample(client.get("/metrics").text, "dragoman_slots_used"), pause=0.005)

    def wait_until_waiting(self) -> None:
        """Wait until a sentence waits for a slot."""
        wait_for(lambda: self.metric("dragoman_requests_waiting"), pause=0.005)

    def has_processes(self) -> bool:
        """Return whether any process of the server's process group is left, engines included."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait_until_gone(self) -> None:
        """Wait until the system has removed the killed processes."""
        wait_for(lambda: not self.has_processes())

    def wait_for_engine(self) -> int:
        """The process id of the only engine, once there is one."""
        [pid] = wait_for(self.engine_pids)
        return pid

    def zygotes(self) -> list[int]:
        """The server's child, which has imported PyTorch."""
        return children(self.process.pid)

    def fork_servers(self) -> list[int]:
        """Forks of that, which have loaded models."""
        return [pid for zygote in self.zygotes() for pid in children(zygote)]

    def engine_pids(self) -> list[int]:
        """Forks of those."""
        return [pid for fork_server in self.fork_servers() for pid in children(fork_server)]

    def forking_pids(self) -> list[int]:
        return [*self.zygotes(), *self.fork_servers()]


def children(pid: int) -> list[int]:
    """Process ids; none of a process that is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class StartServer(Protocol):
    """Starts a server with flags and constants, and by default waits for it to be ready."""

    def __call__(
        self, *flags: str, ready: bool = True, constants: Mapping[str, float] | None = None
    ) -> AbstractContextManager[Server]: ...


def _start(
    flags: Sequence[str], output: IO[bytes], environment: dict[str, str], constants: Mapping[str, float] | None
) -> subprocess.Popen[bytes]:
    program = ["service"] if constants is None else ["tests.system.patched", json.dumps(constants)]
    command = [sys.executable, "-m", *program, "serve", *flags]
    return subprocess.Popen(command, stderr=output, start_new_session=True, env=os.environ | environment)


@contextmanager
def run_server(
    log: Path,
    *flags: str,
    ready: bool = True,
    port: int | None = None,
    environment: Mapping[str, str] | None = None,
    constants: Mapping[str, float] | None = None,
) -> Iterator[Server]:
    """Start a server; at the end stop it, and check that it leaves no process behind.

    `constants` are values by `module.NAME`, with which a test need not wait.
    It keeps no finished sentences unless a flag says so: tests send the same sentences again to keep engines at work.
    It has one model and one engine unless flags say so: tests kill and count engines.
    """
    port = port or free_port()
    if "--cache-mb" not in flags:
        flags = ("--cache-mb", "0", *flags)
    if not {"--model", "--models"} & {*flags}:
        flags = ("--model", str(EMBEDDED_MODEL), *flags)
    if "--replicas" not in flags:
        flags = ("--replicas", "1", *flags)
    flags = ("--port", str(port), *flags)
    with log.open("wb") as output:
        forked = None if environment else launcher.serve(flags, output, constants or {})
        process = forked or _start(flags, output, dict(environment or {}), constants)
    server = Server(process, port, log)
    try:
        if ready:
            server.wait_until_ready()
        yield server
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, log.read_text()
        server.wait_until_gone()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def shared_server(*flags: str, scope: Literal["session", "module"] = "module", **options: Any) -> object:
    """Define a fixture: a server that the tests of a module share. The last of them may end it."""

    @pytest.fixture(scope=scope)
    def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        with run_server(tmp_path_factory.mktemp("server") / "log", *flags, **options) as running:
            yield running

    return shared


# For the tests that leave it as they found it.
server = shared_server(scope="session")


@pytest.fixture
def start_server(tmp_path: Path) -> StartServer:
    """A server of one's own, with flags."""
    return partial(run_server, tmp_path / "log")


@pytest.fixture(scope="session")
def documented(server: Server) -> DocumentedStatuses:
    return DocumentedStatuses(httpx.get(f"{server.url}/openapi.json").json())


@pytest.fixture
async def client(server: Server, documented: DocumentedStatuses) -> AsyncIterator[httpx.AsyncClient]:
    hooks: dict[str, list[Callable[..., Any]]] = {"response": [documented]}
    async with server.client(event_hooks=hooks) as client:
        yield client
