"""DeepL's own client for Node.js, unmodified: `pytest --download` installs it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.system.conftest import StartServer

PACKAGE = "deepl-node@1.28.0"
SCRIPT = Path(__file__).with_name("deepl_node.mjs")


@pytest.fixture
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Install the package into a directory of its own."""
    if not request.config.getoption("--download"):
        pytest.skip("asks the package index: only with --download")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm")
    (tmp_path / "package.json").write_text("{}")
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE], cwd=tmp_path, check=True)
    return tmp_path


def test_deepl_s_client_for_node(work: Path, start_server: StartServer, tmp_path: Path) -> None:
    with start_server("--glossaries", str(tmp_path / "glossaries")) as server:
        variables = {"SERVER": server.url, "WORK": str(work)}
        ran = subprocess.run(
            ["node", str(SCRIPT)],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout
    seen = json.loads(ran.stdout)
    assert seen["text"] == "Je vois un chat."
    assert seen["batch"] == ["Oui.", "42"]
    assert seen["xml"] == "<p>Je vois un chat <b>noir</b>.</p>"
    assert seen["languages"] == [[["en", "English"]], [["fr", "French"]]]
    assert seen["characters"] > 0
    names, entries, translated = seen["glossary"]
    assert (names, entries) == (["animals"], "cat\tmatou")
    assert "matou" in translated
    dictionaries, translated = seen["multilingual"]
    assert dictionaries == [["en", "fr", 1]]
    assert "matou" in translated
    assert seen["document"] == "Je vois un chat.\n"
    assert "target_lang: xx is not supported; available: FR" in seen["refused"]
