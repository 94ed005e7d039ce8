"""Replicas behind Ray's proxy: one of two is lost, or one becomes two. `python -m loadtest.checks.replicas --help`."""

import asyncio
import functools
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import httpx
import psutil
import typer
from httpx_sse import SSEError, aconnect_sse

from loadtest.local_server import free_port
from loadtest.sentences import LANGUAGES, SENTENCES

_REPLICAS: Final = 2
_ENGINES: Final = 1
"""Engines of each replica."""
_TRIES: Final = 3
_ONGOING: Final = 2.0
_PATIENCE_SECONDS: Final = 120.0
_BETWEEN_SECONDS: Final = 0.02
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    # Or a lost replica would have time for its streams, which it cannot end.
    "RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS": "1",
}
_UNDER_WAY: Final = 100
"""Tokens of a reader when the others' first ones are long there, and no stream is near its end."""


class Fault(StrEnum):
    """Faults of a replica: kill -9, SIGSTOP, or repeated kill -9 of its engines and their fork server."""

    KILL = "kill"
    HANG = "hang"
    ENGINES = "engines"


class Resumed(NamedTuple):
    """A text, and how often its reader had to ask again."""

    text: str
    resumptions: int


class Reader:
    """Reads one stream; when it breaks off, asks again for what comes after the last event."""

    def __init__(self, client: httpx.AsyncClient, text: str) -> None:
        self._client = client
        self._body: dict[str, Any] = {"q": text, **LANGUAGES, "stream": True}
        self._last_event_id: str | None = None
        self._pieces: list[str] = []
        self._begun = False
        self.under_way = asyncio.Event()

    async def read(self) -> Resumed:
        """Raises `TimeoutError` when it takes too long."""
        resumptions = 0
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while (whole := await self._read_on()) is None:
                resumptions += self._begun
                await asyncio.sleep(0.2)
        if whole != "".join(self._pieces):
            raise ValueError("the tokens give another text than the end")
        return Resumed(whole, resumptions)

    async def _read_on(self) -> str | None:
        """The whole translation, or None where the stream ended before it did."""
        headers = {} if self._last_event_id is None else {"Last-Event-ID": self._last_event_id}
        try:
            async with aconnect_sse(self._client, "POST", "/translate", json=self._body, headers=headers) as source:
                async for event in source.aiter_sse():
                    if not event.data:
                        continue  # httpx-sse makes an event of the keep-alive comment
                    data = event.json()
                    if event.event == "error":
                        return None
                    self._last_event_id = event.id
                    if event.event == "token":
                        self._pieces.append(data["text"])
                        self._begun = True
                        if len(self._pieces) >= _UNDER_WAY:
                            self.under_way.set()
                    elif event.event == "done":
                        self._begun = True
                        self.under_way.set()
                        return str(data["translatedText"])
        except (httpx.TransportError, SSEError, ValueError):
            pass  # refused, cut, or the proxy's own words instead of an event
        return None


async def begin(readers: Sequence[Reader]) -> list[asyncio.Task[Resumed]]:
    """All of them, one shortly after the other, so that Ray sees where there is room; returns when one is under way.

    Waiting for all would be wrong: a replica to which the proxy sent few streams could be done with them by then, and
    nobody would notice its loss.
    """
    reading = []
    for reader in readers:
        reading.append(asyncio.create_task(reader.read()))
        await asyncio.sleep(_BETWEEN_SECONDS)
    waiting = [asyncio.create_task(reader.under_way.wait()) for reader in readers]
    await asyncio.wait([*waiting, *reading], return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    return reading


def main(
    streams: Annotated[int, typer.Option(min=1, help="That run when a replica is lost.")] = 8,
    sentences: Annotated[int, typer.Option(min=1, help="Of each.")] = 40,
    fault: Annotated[list[Fault], typer.Option(help="One after the other.")] = list(Fault),  # noqa: B006
    check_seconds: Annotated[float, typer.Option(help="The application's: Ray needs more than three to notice.")] = 10,
    grow: Annotated[bool, typer.Option(help="Begin with one replica, and wait for Ray to add the other.")] = False,
) -> None:
    """Every text alone; then all at once, and a replica is lost when they are under way: the same texts, and another.

    With --grow none is lost: texts are asked for until there are two replicas.
    """
    texts = [
        " ".join(SENTENCES[(7 * number + k) % len(SENTENCES)] for k in range(sentences)) for number in range(streams)
    ]
    with _cluster(1 if grow else _REPLICAS, check_seconds) as url:
        result = asyncio.run(_grow(url, texts) if grow else _lose(url, texts, fault))
    typer.echo(json.dumps(result, indent=1))
    if grow:
        raise typer.Exit(result["replicas_at_the_end"] < _REPLICAS or result["same_text_as_alone"] < result["streams"])
    # Where all had ended, or nobody noticed, nothing has been shown.
    if not all(_is_well(seen) and seen["streams_that_resumed"] for seen in result.values()):
        raise typer.Exit(1)


@contextmanager
def _cluster(replicas: int, check_seconds: float) -> Iterator[str]:
    """The application in a Ray of this machine's own; the address of its proxy."""
    os.environ.update(_ENVIRONMENT | os.environ)
    import ray
    from ray import serve

    from deploy.ray.application import Options, application, cores

    port = free_port()
    # Cores as Ray counts them: another replica must not wait until a lost one is gone.
    ray.init(num_cpus=cores(_ENGINES) * (_REPLICAS + 1), include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        options = Options(
            engines=_ENGINES,
            min_replicas=replicas,
            max_replicas=_REPLICAS,
            ongoing_requests=_ONGOING,
            check_seconds=check_seconds,
        )
        serve.run(application(options), name="dragoman")
        yield f"http://127.0.0.1:{port}"
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()


async def _lose(url: str, texts: Sequence[str], faults: Sequence[Fault]) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE_SECONDS, limits=limits) as client:
        alone = [(await Reader(client, text).read()).text for text in texts]
        return {
            fault.value: await until_noticed(functools.partial(_lose_one, client, texts, alone, fault))
            for fault in faults
        }


async def until_noticed(lose_one: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the figures of the first loss that proves something, or of the last of a few losses.

    Where Ray had sent the lost replica no stream, nobody has to resume, and the next one may have some. A wrong text
    or a missing replica is not tried again.
    """
    for number in range(1, _TRIES + 1):
        seen = {"tries": number, **await lose_one()}
        if seen["streams_that_resumed"] or not _is_well(seen):
            break
    return seen


def _is_well(seen: Mapping[str, Any]) -> bool:
    return bool(seen["same_text_as_alone"] == seen["streams"] and seen["replicas_at_the_end"] == _REPLICAS)


async def _lose_one(
    client: httpx.AsyncClient, texts: Sequence[str], alone: Sequence[str], fault: Fault
) -> dict[str, Any]:
    reading = await begin([Reader(client, text) for text in texts])
    running = sum(not task.done() for task in reading)
    lost = replica_pids()[0]
    started = time.monotonic()
    breaking = asyncio.create_task(_break(lost, fault))
    replacing = asyncio.create_task(_replaced(lost))
    resumed = await asyncio.gather(*reading)
    seconds = time.monotonic() - started
    gone_at, replicas = await replacing
    breaking.cancel()
    return {
        "streams": len(texts),
        "streams_that_ran": running,
        "streams_that_resumed": sum(each.resumptions > 0 for each in resumed),
        "same_text_as_alone": sum(each.text == text for each, text in zip(resumed, alone, strict=True)),
        "seconds_to_the_last_end": round(seconds, 1),
        "seconds_until_it_was_gone": None if gone_at is None else round(gone_at - started, 1),
        "seconds_until_there_was_another": round(time.monotonic() - started, 1),
        "replicas_at_the_end": replicas,
    }


async def _break(pid: int, fault: Fault) -> None:
    """Returns when that is done, which is not before the end of the replica where it is its engines."""
    if fault is not Fault.ENGINES:
        os.kill(pid, signal.SIGKILL if fault is Fault.KILL else signal.SIGSTOP)
        return
    with suppress(psutil.NoSuchProcess):
        replica = psutil.Process(pid)
        while True:
            for child in replica.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            await asyncio.sleep(_BETWEEN_SECONDS)


async def _grow(url: str, texts: Sequence[str]) -> dict[str, Any]:
    """Asks for all texts at once, again and again, until Ray has added a replica or everybody has lost patience."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE_SECONDS, limits=limits) as client:
        alone = [(await Reader(client, text).read()).text for text in texts]
        before = len(replica_pids())
        started = time.monotonic()
        streams = identical = 0
        while (replicas := len(replica_pids())) < _REPLICAS and time.monotonic() < started + _PATIENCE_SECONDS:
            read = await asyncio.gather(*(Reader(client, text).read() for text in texts))
            streams += len(texts)
            identical += sum(one.text == text for one, text in zip(read, alone, strict=True))
    return {
        "replicas": before,
        "ongoing_requests_wanted": _ONGOING,
        "requests_at_once": len(texts),
        "seconds_until_there_were_two": round(time.monotonic() - started, 1),
        "replicas_at_the_end": replicas,
        "streams": streams,
        "same_text_as_alone": identical,
    }


async def _replaced(lost: int) -> tuple[float | None, int]:
    """Return when the lost replica was gone, and the number of ready replicas, once complete or after a timeout."""
    from ray import serve

    gone_at = None
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        pids = replica_pids()
        if gone_at is None and lost not in pids:
            gone_at = time.monotonic()
        status = await asyncio.to_thread(serve.status)
        [deployment] = status.applications["dragoman"].deployments.values()
        ready = sum(count for state, count in deployment.replica_states.items() if state == "RUNNING")
        # Ray counts a lost one until it has noticed.
        replicas = min(ready, len({*pids} - {lost}))
        if time.monotonic() > deadline or (gone_at is not None and replicas == _REPLICAS):
            return gone_at, replicas
        await asyncio.sleep(0.2)


def replica_pids() -> list[int]:
    """Processes of the application's replicas, among this one's descendants."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::ServeReplica:dragoman"):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    typer.run(main)
