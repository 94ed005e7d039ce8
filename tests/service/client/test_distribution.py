"""The client as a distribution of its own, in an environment with nothing but what it declares."""

import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.service.client.test_client import DONE, FIRST, SECOND, START, Answer, Scripted

_ROOT = Path(__file__).parent.parent.parent.parent
_SOURCE = _ROOT / "service" / "client"
_PROGRAM = """
import sys
import dragoman_client as client

with client.Client(sys.argv[1]) as connection:
    events = list(connection.stream("I am.", source="en", target="fr"))
print("".join(event.text for event in events if isinstance(event, client.Token)))
for name in ("service", "model", "torch", "fastapi"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} is here, too")
"""


def _project(path: Path) -> dict[str, object]:
    content: dict[str, dict[str, object]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return content["project"]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python that finds the client's wheel and the packages that it requires, copied from the one of the tests."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", str(_SOURCE)]
    subprocess.run([*build, "--wheel-dir", str(tmp_path)], check=True)
    [wheel] = tmp_path.glob("dragoman_client-*.whl")
    venv.create(tmp_path / "venv", symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    with zipfile.ZipFile(wheel) as archive:
        assert {name.split("/")[0].split("-")[0] for name in archive.namelist()} == {"dragoman_client"}
        archive.extractall(packages)
    requirements = _project(_SOURCE / "pyproject.toml")["dependencies"]
    assert isinstance(requirements, list)
    for name in _closure({Requirement(each).name for each in requirements}):
        for file in distribution(name).files or ():
            if ".." not in file.parts and file.parts[0] != "__pycache__":
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                (packages / file).symlink_to(file.locate())
    return tmp_path / "venv" / "bin" / "python"


def _closure(names: set[str]) -> set[str]:
    """The distributions and all that they require in turn, without extras."""
    found: set[str] = set()
    while names:
        found |= names
        required = (Requirement(each) for name in names for each in distribution(name).requires or ())
        names = {each.name for each in required if each.marker is None or each.marker.evaluate({"extra": ""})} - found
    return found


def test_it_streams_without_torch_and_without_the_server(python: Path) -> None:
    with Scripted([Answer(200, START + FIRST + SECOND + DONE)]) as server:
        command = [str(python), "-I", "-c", _PROGRAM, server.url.removeprefix("http://")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "Je suis\n"), done.stderr


def test_its_version_and_its_requirements_are_those_of_dragoman() -> None:
    client, whole = _project(_SOURCE / "pyproject.toml"), _project(_ROOT / "pyproject.toml")
    assert client["version"] == whole["version"]
    assert client["requires-python"] == whole["requires-python"]
    requirements, of_whole = client["dependencies"], whole["dependencies"]
    assert isinstance(requirements, list)
    assert isinstance(of_whole, list)
    assert set(requirements) <= set(of_whole)
