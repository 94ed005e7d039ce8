"""The image and docker-compose.yml in a real Docker engine; `.ci/docker-engine` starts one where there is none.

PIP_INDEX_URL and TORCH_INDEX_URL reach the builds.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from httpx_sse import connect_sse

from model.tokenizer import Tokenizer
from tests.deploy.conftest import ROOT
from tests.deploy.test_image import CONSTRAINTS
from tests.service.hub.servers import file_server, publish_repository
from tests.waiting import wait_for

PROJECT: Final = "dragoman-test"
IMAGE: Final = f"{PROJECT}-dragoman"
URL: Final = "http://127.0.0.1:5000"
GRACE_SECONDS: Final = 50  # stop_grace_period in docker-compose.yml
COMPOSE: Final = ("docker", "compose", "--project-name", PROJECT, "--profile", "load")
SITE_PACKAGES: Final = "/opt/venv/lib/python3*/site-packages"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.usefixtures("engine")]


def _run(*command: str, environment: Mapping[str, str] | None = None, check: bool = True) -> str:
    """Return what the command prints on both streams."""
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | dict(environment or {}), capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def engine() -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no Docker engine: run the tests by .ci/docker-engine, as root")
    if (ROOT / ".env").exists():
        pytest.skip("the .env here changes what compose does: move it away")


def _build(*options: str, check: bool = True, **arguments: str) -> str:
    given = {name: os.environ[name] for name in ("PIP_INDEX_URL", "TORCH_INDEX_URL") if name in os.environ} | arguments
    build_args = [f"--build-arg={name}={value}" for name, value in given.items()]
    return _run("docker", "build", "--network", "host", *build_args, *options, ".", check=check)


@pytest.fixture(scope="module")
def image(engine: None) -> str:
    """The image under the name that compose gives it."""
    _build("--tag", IMAGE)
    return IMAGE


def _translate(text: str, has_begun: threading.Event | None = None) -> list[str]:
    """Return the names of the stream's events."""
    names = []
    body = {"q": text, "source": "en", "target": "fr", "stream": True}
    with (
        httpx.Client(base_url=URL, timeout=100, trust_env=False) as client,
        connect_sse(client, "POST", "/translate", json=body) as source,
    ):
        for event in source.iter_sse():
            if event.data:
                names.append(event.event)
            if event.event == "token" and has_begun is not None:
                has_begun.set()
    return names


def _assert_translates() -> None:
    names = _translate("I see a cat.")
    assert "token" in names
    assert names[-1] == "done"


def _assert_drains(container: str, sentences: int, *command: str) -> None:
    """Stop the container by `command` while it translates: the stream stays whole, and the container ends with 0.

    So many sentences must take longer than the command needs to reach the server, and less than the drain's 30 seconds.
    No two are equal: the cache of sentences would answer the second one at once.
    """
    text = " ".join(f"I see cat {number}." for number in range(sentences))
    has_begun = threading.Event()
    with ThreadPoolExecutor() as executor:
        long = executor.submit(_translate, text, has_begun)
        # In the background: the command may remove the container, and its exit status and log with it.
        status = executor.submit(_run, "docker", "wait", container)
        log = executor.submit(_run, "docker", "logs", "--follow", container)
        assert has_begun.wait(60), "the long translation does not begin"
        assert not long.done(), "the long translation was too short for this check"
        started = time.monotonic()
        _run(*command)
        assert time.monotonic() - started < GRACE_SECONDS, "the container had to be killed"
        assert long.result()[-1] == "done"
        assert status.result().strip() == "0"
        assert re.search(r'"message": "draining", "requests": [1-9]', log.result()), "nothing ran at the stop"


@contextmanager
def _index_of_a_cuda_torch(directory: Path) -> Iterator[str]:
    """Serve an index whose torch is a CUDA build of a few bytes; other packages are where PIP_INDEX_URL has them."""
    [version] = re.findall(r"^torch==(\S+)", CONSTRAINTS.read_text(), re.MULTILINE)
    contents = {
        "torch/version.py": "cuda: str | None = '13.0'\n",
        f"torch-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
        f"torch-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"torch-{version}.dist-info/RECORD": "",
    }
    (directory / "torch").mkdir()
    with zipfile.ZipFile(directory / "torch" / f"torch-{version}-py3-none-any.whl", "w") as wheel:
        for name, content in contents.items():
            wheel.writestr(name, content)

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/torch/"):
                super().do_GET()
                return
            self.send_response(302)
            self.send_header("Location", os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple") + self.path)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None: ...

    with _served(partial(Handler, directory=str(directory))) as url:
        yield url


@contextmanager
def _served(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_device_is_what_torch_is(image: str, tmp_path: Path) -> None:
    with _index_of_a_cuda_torch(tmp_path) as index:
        build = partial(_build, "--target", "torch", PIP_INDEX_URL=index, TORCH_INDEX_URL=index)
        build(DEVICE="cuda")
        assert "DEVICE is cpu, but the index has torch's cuda build" in build(check=False)
        assert "DEVICE is cpu or cuda, not 'gpu'" in build(DEVICE="gpu", check=False)


def test_every_package_in_the_image_is_pinned(image: str) -> None:
    program = """
import re
from importlib.metadata import distributions
for each in distributions():
    print(re.sub("[-_.]+", "-", each.name).lower(), each.version.partition("+")[0], sep="==")
"""
    installed = {*_run("docker", "run", "--rm", "--entrypoint", "python3", image, "-c", program).split()}
    pinned = {line.partition(" ;")[0] for line in CONSTRAINTS.read_text().splitlines()}
    assert len(installed) > 50
    assert [each for each in installed - pinned if not each.startswith("dragoman==")] == []


def test_the_image_translates_without_network(image: str) -> None:
    _run(".ci/check-image", image)


def test_the_image_serves_and_drains_with_no_rights_and_no_writable_place(image: str) -> None:
    confined = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--publish", "5000:5000"]
    # One thread, because other programs may keep the cores busy.
    settings = ["--env", "DRAGOMAN_THREADS=1", "--env", "DRAGOMAN_SLOTS=1"]
    container = _run("docker", "run", "--detach", *confined, *settings, image).strip()
    inspect = ("docker", "inspect", "--format", "{{.State.Health.Status}}", container)
    try:
        wait_for(lambda: _run(*inspect).strip() == "healthy", 120, pause=0.5)
        assert _run("docker", "exec", container, "id", "-u").strip() == "10001"
        for place in ("/", "/tmp", "/opt/venv"):
            # As root, whom no mode of a directory keeps from it.
            touch = ("docker", "exec", "--user", "0", container, "touch", f"{place}/x")
            assert "Read-only file system" in _run(*touch, check=False)
        assert "C++ operators for" in _run("docker", "logs", container)
        in_container = ("docker", "exec", container, "sh", "-c")
        _run(*in_container, "! command -v c++")
        packages = [f"{SITE_PACKAGES}/{name}/__pycache__/__init__.*.pyc" for name in ("torch", "fastapi", "service")]
        _run(*in_container, f"ls {' '.join(packages)}")
        _assert_translates()
        _assert_drains(container, 1000, "docker", "stop", "--time", str(GRACE_SECONDS), container)
    finally:
        _run("docker", "rm", "--force", container)


def test_compose_takes_settings_from_env_but_not_the_port(tmp_path: Path) -> None:
    """The published port and the health check fix where the server listens inside of its container."""
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    lines = ("BIND=192.0.2.1", "SLOTS=7", "STOP_SECONDS=140", "HOST=127.0.0.1", "PORT=1")
    (tmp_path / ".env").write_text("".join(f"DRAGOMAN_{line}\n" for line in lines))
    project = ("docker", "compose", "--project-directory", str(tmp_path), "config", "--format", "json", "dragoman")
    indexes = {"PIP_INDEX_URL": "http://packages.example", "TORCH_INDEX_URL": "http://torch.example", "DEVICE": "cuda"}
    dragoman = json.loads(_run(*project, environment=indexes))["services"]["dragoman"]
    environment = dragoman["environment"]
    assert environment["DRAGOMAN_SLOTS"] == "7"
    assert (environment["DRAGOMAN_HOST"], environment["DRAGOMAN_PORT"]) == ("0.0.0.0", "5000")
    assert [port["host_ip"] for port in dragoman["ports"]] == ["192.0.2.1"]
    assert dragoman["stop_grace_period"] == "2m20s"
    assert dragoman["build"]["args"] == indexes


def _locust_translates() -> bool:
    """True if locust's users have had translations of both kinds and no failure; refusals are another row."""
    try:
        stats = httpx.get("http://127.0.0.1:8089/stats/requests", trust_env=False).json()["stats"]
    except (httpx.TransportError, ValueError):
        return False
    rows = {row["name"]: row for row in stats}
    kinds = [rows.get(f"/translate ({kind})") for kind in ("stream", "JSON")]
    return all(row is not None and row["num_requests"] >= 5 and not row["num_failures"] for row in kinds)


def _is_watched() -> bool:
    """True if Prometheus has a number for every record and every panel of the dashboard."""
    _assert_translates()
    live = {"source": "en", "target": "fr", "append": "I see a cat.", "end": True}
    httpx.post(f"{URL}/translate/live", json=live, timeout=100, trust_env=False).raise_for_status()
    check = [sys.executable, "-m", "deploy.check_dashboards"]
    return subprocess.run(check, cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_compose_serves_watches_and_drains(image: str) -> None:
    try:
        _run(*COMPOSE, "up", "--detach", "--wait", "--no-build", "dragoman", "prometheus", "locust")
        container = _run(*COMPOSE, "ps", "--quiet", "dragoman").strip()
        confined = "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}}"
        assert _run("docker", "inspect", "--format", confined, container).strip() == "true [ALL]"
        assert _run("docker", "port", container).strip() == "5000/tcp -> 127.0.0.1:5000"
        wait_for(_is_watched, 90, pause=0.5)
        wait_for(_locust_translates, 60, pause=0.5)
        # Or they would be stopped first, and the long translation might end meanwhile.
        _run(*COMPOSE, "rm", "--stop", "--force", "locust", "prometheus")
        _assert_drains(container, 3000, *COMPOSE, "down", "--volumes")
    finally:
        _run(*COMPOSE, "down", "--volumes", check=False)


def test_compose_serves_a_public_model_by_its_name(image: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    """The volume keeps the model: the second start needs no hub."""
    pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")
    from tests.model.formats.builders import marian

    marian(tmp_path, tokenizer)
    subnet = _run("docker", "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Subnet}}").strip()
    gateway = str(next(ip_network(subnet).hosts()))
    named = {"DRAGOMAN_MODEL": "acme/opus-mt-en-fr"}
    up = (*COMPOSE, "up", "--detach", "--wait", "--no-build", "dragoman")
    try:
        with file_server(gateway) as hub:
            publish_repository(
                hub, named["DRAGOMAN_MODEL"], {each.name: each.read_bytes() for each in tmp_path.iterdir()}
            )
            _run(*up, environment=named | {"HF_ENDPOINT": hub.url})
            _assert_translates()
            _run(*COMPOSE, "down")
        _run(*up, environment=named | {"DRAGOMAN_OFFLINE": "1"})
        _assert_translates()
    finally:
        print(_run(*COMPOSE, "logs", "dragoman", check=False))
        _run(*COMPOSE, "down", "--volumes", check=False)
