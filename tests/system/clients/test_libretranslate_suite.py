"""LibreTranslate's own API tests, against our server: `pytest --download` takes them from LibreTranslate's package."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tests.system.conftest import StartServer
from tests.system.models import relabel_embedded_model

PACKAGE = "libretranslate==1.9.6"
FOLDER = "libretranslate/tests/test_api"

_CONFTEST = '''
import os
from types import SimpleNamespace

import httpx
import pytest


class Client:
    """Flask's test client, as far as the tests use it."""

    def __getattr__(self, method):
        def send(path, **body):
            response = httpx.request(method.upper(), os.environ["SERVER"] + path, timeout=60, **body)
            is_json = response.headers["content-type"].startswith("application/json")
            json = response.json() if is_json else None
            return SimpleNamespace(status_code=response.status_code, data=response.content, json=json)

        return send


@pytest.fixture
def client():
    return Client()
'''
"""A fixture in place of LibreTranslate's own, which starts its application."""


@pytest.fixture
def suite(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Download the package without what it requires, and unpack its tests."""
    if not request.config.getoption("--download"):
        pytest.skip("asks the package index: only with --download")
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, PACKAGE], check=True)
    [wheel] = tmp_path.glob("*.whl")
    directory = tmp_path / "suite"
    directory.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(f"{FOLDER}/test_"):
                (directory / PurePosixPath(name).name).write_bytes(archive.read(name))
    (directory / "conftest.py").write_text(_CONFTEST)
    return directory


def test_libretranslate_s_own_tests(suite: Path, start_server: StartServer, tmp_path: Path) -> None:
    """Its tests translate into Spanish, which the embedded model pretends to be its target."""
    models = tmp_path / "models"
    models.mkdir()
    for direction in ("en-es", "es-en"):
        relabel_embedded_model(models / direction, direction)
    with start_server("--models", str(models)) as server:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        tests = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", ".", "."],
            cwd=suite,
            env=environment | {"SERVER": server.url},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert "\n14 passed" in tests.stdout, tests.stdout
