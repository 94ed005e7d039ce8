"""Ray Serve on two nodes, each in a network namespace of this machine; one is lost while clients read.

The command is `python -m tests.deploy.replicas node`, as root and with Linux's `ip`.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tests.deploy.readers import connect, make_texts, read_alone, read_through

_NETWORK: Final = "10.77.0"
_RAY_PORT: Final = 6399
_SERVE_PORT: Final = 8123
_SENTENCES: Final = 60
_ENGINES: Final = 1
_LOST_SECONDS: Final = 60.0
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    # Its default of 5 s is too little for the imports of a proxy on a busy machine.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    # The same texts again must be work for the engines.
    "DRAGOMAN_CACHE_MB": "0",
    # Otherwise all requests would stay on the proxy's node, and nobody would notice the loss of the other one.
    "RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING": "0",
    "RAY_SERVE_PROXY_PREFER_LOCAL_AZ_ROUTING": "0",
}

app = typer.Typer()


@app.command()
def node(
    streams: Annotated[int, typer.Option(min=1, help="Streams that run when a node is lost.")] = 8,
    lose: Annotated[str, typer.Option(hidden=True, help="The namespace to lose; set inside of the other one.")] = "",
) -> None:
    """Lose one of two nodes while all texts are read: the same texts as alone."""
    if lose:
        typer.echo(json.dumps(_inside(lose, streams), indent=1))
        return
    if os.geteuid():
        raise typer.BadParameter("network namespaces need root")
    with _nodes() as (first, second):
        inside = [sys.executable, "-m", "tests.deploy.replicas", "node", "--streams", str(streams), "--lose", second]
        done = subprocess.run(_in(first, *inside), env=_environment(), stdout=subprocess.PIPE, text=True, check=False)
    typer.echo(done.stdout)
    if done.returncode:
        raise typer.Exit(1)
    seen = json.loads(done.stdout[done.stdout.index("{\n") :])
    # A loss that no reader noticed proves nothing.
    is_noticed = seen["streams_that_resumed"] > 0 and seen["nodes_at_the_end"] == 1
    if seen["same_text_as_alone"] < streams or not is_noticed:
        raise typer.Exit(1)


@contextmanager
def _nodes() -> Iterator[tuple[str, str]]:
    """Make two namespaces with a cable between, and in each a node of one cluster, with cores for one replica."""
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

    def alive() -> int:
        return sum(node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]

    nodes = alive()
    figures = asyncio.run(_check(streams, partial(_lose, other)))
    return {"nodes": nodes} | figures | {"nodes_at_the_end": _until_lost(alive)}


async def _check(streams: int, lose: Callable[[], int]) -> dict[str, float]:
    texts = make_texts(streams, _SENTENCES)
    async with connect(f"http://{_NETWORK}.1:{_SERVE_PORT}") as client:
        alone = await read_alone(client, texts)
        figures, processes = await read_through(client, texts, alone, lose)
    return {**figures, "processes_of_the_node": processes}


def _until_lost(alive: Callable[[], int]) -> int:
    """Return the number of nodes that Ray counts, as soon as it has noticed the loss or after a timeout."""
    deadline = time.monotonic() + _LOST_SECONDS
    while (count := alive()) > 1 and time.monotonic() < deadline:
        time.sleep(0.5)
    return count


def _lose(namespace: str) -> int:
    """Kill (kill -9) all processes in a namespace; return their number."""
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
