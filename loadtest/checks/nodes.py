"""Ray Serve on two nodes, each in a network namespace of this machine; one is lost while clients read.

`python -m loadtest.checks.nodes`, as root and with Linux's `ip`. Every text must be what it is alone.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer

from loadtest.checks.replicas import Reader, begin
from loadtest.sentences import SENTENCES

_NETWORK: Final = "10.77.0"
_RAY_PORT: Final = 6399
_SERVE_PORT: Final = 8123
_SENTENCES: Final = 60
_ENGINES: Final = 1
_LOST_SECONDS: Final = 60.0
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    # Or all requests would stay on the node of the proxy, and nobody would notice the loss of the other.
    "RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING": "0",
    "RAY_SERVE_PROXY_PREFER_LOCAL_AZ_ROUTING": "0",
}


def main(
    streams: Annotated[int, typer.Option(min=1, help="That run when a node is lost.")] = 8,
    lose: Annotated[str, typer.Option(hidden=True, help="Inside the first namespace: the other one.")] = "",
) -> None:
    """Make the nodes, and check from the first of them."""
    if lose:
        typer.echo(json.dumps(_inside(lose, streams), indent=1))
        return
    if os.geteuid():
        raise typer.BadParameter("network namespaces need root")
    with _nodes() as (first, second):
        inside = [sys.executable, "-m", "loadtest.checks.nodes", "--streams", str(streams), "--lose", second]
        done = subprocess.run(_in(first, *inside), env=_environment(), stdout=subprocess.PIPE, text=True, check=False)
    typer.echo(done.stdout)
    if done.returncode:
        raise typer.Exit(1)
    seen = json.loads(done.stdout[done.stdout.index("{\n") :])
    # Where nobody had to resume, nothing has been shown.
    if seen["same_text_as_alone"] < streams or not seen["streams_that_resumed"] or seen["nodes_at_the_end"] != 1:
        raise typer.Exit(1)


@contextmanager
def _nodes() -> Iterator[tuple[str, str]]:
    """Two namespaces with a cable in between, and a node of one cluster in each, with cores for one replica."""
    from deploy.ray.application import cores

    names = (f"dragoman{os.getpid()}a", f"dragoman{os.getpid()}b")
    try:
        for name in names:
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        _run(
            "ip", "link", "add", "node1", "netns", names[0], "type", "veth", "peer", "name", "node2", "netns", names[1]
        )
        for number, name in enumerate(names, start=1):
            _run("ip", "-n", name, "addr", "add", f"{_NETWORK}.{number}/24", "dev", f"node{number}")
            _run("ip", "-n", name, "link", "set", f"node{number}", "up")
        with tempfile.TemporaryDirectory(prefix="ray") as directory:
            ray = [
                str(Path(sys.executable).with_name("ray")),
                "start",
                f"--num-cpus={cores(_ENGINES)}",
                "--disable-usage-stats",
            ]
            address = f"{_NETWORK}.1:{_RAY_PORT}"
            head = ["--head", f"--port={_RAY_PORT}", f"--temp-dir={directory}", "--include-dashboard=false"]
            _run(*_in(names[0], *ray, *head, f"--node-ip-address={_NETWORK}.1"))
            _run(*_in(names[1], *ray, f"--address={address}", f"--node-ip-address={_NETWORK}.2"))
            yield names
            for name in names:
                _lose(name)
    finally:
        for name in names:
            _lose(name)
            subprocess.run(["ip", "netns", "del", name], check=False)


def _inside(other: str, streams: int) -> dict[str, Any]:
    import ray
    from ray import serve

    from deploy.ray.application import Options, application

    ray.init(address=f"{_NETWORK}.1:{_RAY_PORT}", log_to_driver=False)
    serve.start(proxy_location="HeadOnly", http_options={"host": f"{_NETWORK}.1", "port": _SERVE_PORT})
    serve.run(application(Options(engines=_ENGINES, min_replicas=2, max_replicas=2)), name="dragoman")
    texts = [" ".join(SENTENCES[(7 * n + k) % len(SENTENCES)] for k in range(_SENTENCES)) for n in range(streams)]

    def alive() -> int:
        return sum(node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]

    nodes = alive()
    return {"nodes": nodes} | asyncio.run(_check(texts, other)) | {"nodes_at_the_end": _until_lost(alive)}


async def _check(texts: Sequence[str], other: str) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    url = f"http://{_NETWORK}.1:{_SERVE_PORT}"
    async with httpx.AsyncClient(base_url=url, timeout=_LOST_SECONDS, limits=limits) as client:
        alone = [(await Reader(client, text).read()).text for text in texts]
        reading = await begin([Reader(client, text) for text in texts])
        running = sum(not task.done() for task in reading)
        processes = _lose(other)
        resumed = await asyncio.gather(*reading)
    return {
        "streams": len(texts),
        "streams_that_ran_at_the_loss": running,
        "processes_of_the_node": processes,
        "streams_that_resumed": sum(each.resumptions > 0 for each in resumed),
        "same_text_as_alone": sum(one == each.text for one, each in zip(alone, resumed, strict=True)),
    }


def _until_lost(alive: Callable[[], int]) -> int:
    """Return the number of nodes that Ray counts, as soon as it has noticed the loss or after a timeout."""
    deadline = time.monotonic() + _LOST_SECONDS
    while (count := alive()) > 1 and time.monotonic() < deadline:
        time.sleep(0.5)
    return count


def _lose(namespace: str) -> int:
    """kill -9 of all that runs in a namespace; how many processes that were."""
    place = Path("/run/netns", namespace)
    killed = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/net").stat().st_ino == place.stat().st_ino:
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
        except OSError:
            continue
    return killed


def _in(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def _environment() -> dict[str, str]:
    return os.environ | _ENVIRONMENT


def _run(*command: str) -> None:
    subprocess.run(command, env=_environment(), stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    typer.run(main)
