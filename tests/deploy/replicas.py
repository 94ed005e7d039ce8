"""Replicas behind Ray's proxy, lost and added: `python -m tests.deploy.replicas --help`.

All print JSON, and end with status 1 when a promise is broken.
"""

import asyncio
import functools
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Annotated, Any, Final

import httpx
import psutil
import typer

from loadtest.local_server import free_port
from tests.deploy import nodes
from tests.deploy.readers import PATIENCE_SECONDS, Reader, connect, make_texts, read_alone, read_through

_REPLICAS: Final = 2
_ENGINES: Final = 1
"""Engines of each replica."""
_TRIES: Final = 3
_ONGOING: Final = 2.0
_KILL_SECONDS: Final = 0.02
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    # Its default of 5 s is too little for the imports of a proxy on a busy machine.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    # The same texts again must be work for the engines.
    "DRAGOMAN_CACHE_MB": "0",
    # Otherwise Ray waits for the streams of a lost replica, which cannot end.
    "RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS": "1",
}

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
app.add_typer(nodes.app)
StreamsOption = Annotated[int, typer.Option(min=1, help="Streams that run at the same time.")]
SentencesOption = Annotated[int, typer.Option(min=1, help="Sentences of each text.")]


class Fault(StrEnum):
    """Faults of a replica: kill -9, SIGSTOP, or repeated kill -9 of its engines and their fork server."""

    KILL = "kill"
    HANG = "hang"
    ENGINES = "engines"


@app.command()
def lose(
    streams: StreamsOption = 8,
    sentences: SentencesOption = 40,
    fault: Annotated[list[Fault], typer.Option(help="Faults, one after the other.")] = list(Fault),  # noqa: B006
    check_seconds: Annotated[float, typer.Option(help="Interval of Ray's health checks; three failures count.")] = 10,
) -> None:
    """Lose one of two replicas while all texts are read: the same texts as alone, and two replicas again."""
    with _cluster(_REPLICAS, check_seconds) as url:
        result = asyncio.run(_lose(url, make_texts(streams, sentences), fault))
    typer.echo(json.dumps(result, indent=1))
    # A loss that no reader noticed proves nothing.
    if not all(_is_well(seen) and seen["streams_that_resumed"] for seen in result.values()):
        raise typer.Exit(1)


@app.command()
def grow(streams: StreamsOption = 8, sentences: SentencesOption = 40) -> None:
    """Begin with one replica, and read texts until Ray has added another."""
    with _cluster(1) as url:
        result = asyncio.run(_grow(url, make_texts(streams, sentences)))
    typer.echo(json.dumps(result, indent=1))
    raise typer.Exit(result["replicas_at_the_end"] < _REPLICAS or result["same_text_as_alone"] < result["streams"])


@contextmanager
def _cluster(replicas: int, check_seconds: float = 10) -> Iterator[str]:
    """Run the application in a Ray on this machine; yield the address of its proxy."""
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
    async with connect(url) as client:
        alone = await read_alone(client, texts)
        return {
            fault.value: await until_noticed(functools.partial(_lose_one, client, texts, alone, fault))
            for fault in faults
        }


async def until_noticed(lose_one: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the figures of the first loss that proves something, or of the last of a few losses.

    No reader has to resume when Ray had sent the lost replica no stream; another loss may hit some. A wrong text or a
    missing replica is not tried again.
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
    def break_one() -> tuple[float, asyncio.Task[None], asyncio.Task[tuple[float | None, int]]]:
        lost = replica_pids()[0]
        return time.monotonic(), asyncio.create_task(_break(lost, fault)), asyncio.create_task(_replaced(lost))

    figures, (started, breaking, replacing) = await read_through(client, texts, alone, break_one)
    seconds = time.monotonic() - started
    gone_at, replicas = await replacing
    breaking.cancel()
    return {
        **figures,
        "seconds_to_the_last_end": round(seconds, 1),
        "seconds_until_it_was_gone": None if gone_at is None else round(gone_at - started, 1),
        "seconds_until_there_was_another": round(time.monotonic() - started, 1),
        "replicas_at_the_end": replicas,
    }


async def _break(pid: int, fault: Fault) -> None:
    """Break the replica; for its engines, until the replica has ended."""
    if fault is not Fault.ENGINES:
        os.kill(pid, signal.SIGKILL if fault is Fault.KILL else signal.SIGSTOP)
        return
    with suppress(psutil.NoSuchProcess):
        replica = psutil.Process(pid)
        while True:
            for child in replica.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            await asyncio.sleep(_KILL_SECONDS)


async def _grow(url: str, texts: Sequence[str]) -> dict[str, Any]:
    """Read all texts at once, repeatedly, until Ray has added a replica or a timeout."""
    async with connect(url) as client:
        alone = await read_alone(client, texts)
        before = len(replica_pids())
        started = time.monotonic()
        streams = identical = 0
        while (replicas := len(replica_pids())) < _REPLICAS and time.monotonic() < started + PATIENCE_SECONDS:
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
    deadline = time.monotonic() + PATIENCE_SECONDS
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
    """Return the processes of the application's replicas among this one's descendants."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::ServeReplica:dragoman"):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    app()
