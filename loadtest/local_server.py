"""A `dragoman serve` of one's own, its processes, and requests to it, for the checks that start a server."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import psutil
from httpx_sse import aconnect_sse

from loadtest.load.sse import find_problem
from loadtest.metrics import Metrics
from service.process.interpreter import python_command
from service.settings import EMBEDDED_MODEL

_START_SECONDS: Final = 180.0
_STOP_SECONDS: Final = 60.0


class ServerFailed(Exception):
    """The server did not become ready, or a stream of it broke its word."""


class StreamedTranslation(NamedTuple):
    """A translation, and the log-probability of each of its tokens."""

    text: str
    logprobs: tuple[float, ...]


class Server:
    """A `dragoman serve` that was started here."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self._process = process
        self.url = url

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    @property
    def pid(self) -> int:
        """Process id of the HTTP process."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status of the HTTP process; None while it runs."""
        return self._process.poll()

    def stop(self) -> int:
        """Send SIGTERM if the server has not ended; return its exit status."""
        if self._process.poll() is None:
            self._process.terminate()
        return self._process.wait()

    def wait_until_ready(self) -> None:
        """Raises `ServerFailed`."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self.status is not None:
                raise ServerFailed("the server ended before it was ready")
            try:
                if httpx.get(f"{self.url}/readyz").status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise ServerFailed(f"the server was not ready after {_START_SECONDS:.0f} s")

    def end(self) -> None:
        """Send SIGTERM, and kill every process of the server that is left after a while."""
        if self._process.poll() is None:
            self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    async def generated_tokens(self) -> float:
        """Return the tokens generated since the start."""
        async with httpx.AsyncClient(base_url=self.url) as client:
            return (await read_metrics(client)).total("dragoman_generated_tokens_total")

    def processes(self) -> "Processes":
        """Return the server's processes: all of its session, whatever their parents are."""
        session = sorted(_session(self.pid))
        alive = [each for each in session if not each.is_zombie]
        parents = {each.pid for each in alive}
        return Processes(
            [each for each in alive if each.name == "dragoman-zygote"],
            [each for each in alive if each.name == "dragoman-model"],
            [each for each in alive if each.name == "dragoman-engine"],
            [each for each in session if each.is_zombie and each.parent in parents],
        )

    def forking(self) -> list[int]:
        """Return the process ids of the zygotes and the fork servers."""
        now = self.processes()
        return [each.pid for each in (*now.zygotes, *now.fork_servers)]

    def engines(self) -> list[int]:
        """Return the engines' process ids."""
        return [each.pid for each in self.processes().engines]

    def processor_seconds(self) -> list[float]:
        """Return user and system time of the HTTP process, then of each engine."""
        times = [psutil.Process(pid).cpu_times() for pid in (self.pid, *self.engines())]
        return [each.user + each.system for each in times]


class Process(NamedTuple):
    """A process as the system reports it."""

    pid: int
    parent: int
    name: str
    is_zombie: bool
    resident_megabytes: float


class Processes(NamedTuple):
    """The processes of a server by kind, each kind by process id."""

    zygotes: list[Process]
    """Processes that have imported PyTorch, and that fork servers are forks of."""
    fork_servers: list[Process]
    """Processes that have loaded a model, and that engines are forks of."""
    engines: list[Process]
    zombies: list[Process]
    """Ended, and not waited for by a parent that lives; what a lost parent leaves is the system's to clear away."""


def free_port() -> int:
    """Return a free port of 127.0.0.1; another program may take it meanwhile."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def start_server(flags: Sequence[str], port: int, log: Path | None = None) -> Server:
    """Start with `flags`; it is not ready yet. Without a model among them, it has the embedded one into French alone.

    It keeps no finished sentences unless a flag says so: the same sentences again are work for its engines.

    Errors are logged to standard error; with `log`, requests are too, and all goes there.
    """
    # Whoever waits is served: refusals are not what is looked at here.
    ours = ["--port", str(port), "--log-level", "info" if log else "error", "--max-waiting", "10000", "--cache-mb", "0"]
    if not {"--model", "--models"} & {*flags}:
        ours += ["--model", str(EMBEDDED_MODEL)]
    command = python_command("-m", "service", "serve", *ours, *flags)
    with log.open("ab") if log else nullcontext() as output:
        # With a session of its own: an engine whose parent has died is known by it.
        process = subprocess.Popen(command, stderr=output, start_new_session=True)
    return Server(process, f"http://127.0.0.1:{port}")


@contextmanager
def run_server(flags: Sequence[str], log: Path | None = None) -> Iterator[Server]:
    """Start as `start_server` does, ready; stopped when the context is left. Raises `ServerFailed`."""
    running = start_server(flags, free_port(), log)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.end()


def _session(leader: int) -> Iterator[Process]:
    for each in psutil.process_iter():
        # One that ends meanwhile is none.
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(each.pid) == leader:
                is_zombie = each.status() == psutil.STATUS_ZOMBIE
                yield Process(each.pid, each.ppid(), each.name(), is_zombie, each.memory_info().rss / 1e6)


def connect(server: Server) -> httpx.AsyncClient:
    """Open a client with a connection for each request; a server may close an idle one just before it is used."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=server.url, timeout=120.0, limits=limits)


async def stream(client: httpx.AsyncClient, text: str, body: dict[str, Any]) -> StreamedTranslation:
    """Translate one text as a stream. Raises `ServerFailed`."""
    async with aconnect_sse(client, "POST", "/translate", json={"q": text, "stream": True, **body}) as source:
        # httpx-sse makes an event of the keep-alive comment, without data.
        events = [(each.event, each.json()) async for each in source.aiter_sse() if each.data]
    if problem := find_problem(events):
        raise ServerFailed(f"{text!r}: {problem}")
    tokens = [data for name, data in events if name == "token"]
    return StreamedTranslation(events[-1][1]["translatedText"], tuple(data["logprob"] for data in tokens))


async def is_ready(client: httpx.AsyncClient) -> bool:
    """Return whether an engine is loaded."""
    return (await client.get("/readyz")).status_code == httpx.codes.OK


async def read_metrics(client: httpx.AsyncClient) -> Metrics:
    """Return the metrics as they are now."""
    response = await client.get("/metrics")
    response.raise_for_status()
    return Metrics(response.text)


async def translate(client: httpx.AsyncClient, texts: list[str], body: dict[str, Any]) -> list[str]:
    """Translate an array of texts in one request."""
    response = await client.post("/translate", json={"q": texts, **body})
    response.raise_for_status()
    translated: list[str] = response.json()["translatedText"]
    return translated
