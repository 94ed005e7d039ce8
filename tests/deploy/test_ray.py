"""The Ray Serve application for real: two replicas, one lost under readers who resume."""

import json
import os
import re
import shutil
import subprocess
import sys
from typing import Final

import pytest
import yaml

pytest.importorskip("ray", reason="install '.[ray]'")

from deploy.ray.application import Options, application
from service.settings import Settings
from tests.deploy.conftest import ROOT


def _command(*arguments: str) -> list[str]:
    """Run Python in a network namespace of its own where possible, since Ray opens many ports on all addresses."""
    python = [sys.executable, *arguments]
    if os.geteuid() or not (shutil.which("unshare") and shutil.which("ip")):
        return python
    return ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *python]


def _can_make_namespaces() -> bool:
    if os.geteuid() or not shutil.which("ip"):
        return False
    name = f"dragoman{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    return made and subprocess.run(["ip", "netns", "del", name], check=False).returncode == 0


_CAN_MAKE_NAMESPACES: Final = _can_make_namespaces()


@pytest.mark.slow
@pytest.mark.timeout(1800)  # there may be three tries for each fault
def test_readers_outlive_a_replica() -> None:
    # Where a node can be lost, the test of that is one of kill -9.
    faults = ["hang", "engines"] if _CAN_MAKE_NAMESPACES else ["kill", "hang", "engines"]
    options = ["--streams", "6", "--sentences", "60", "--check-seconds", "2"]
    command = _command("-m", "tests.deploy.replicas", "lose", *options, *(f"--fault={fault}" for fault in faults))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    by_fault = json.loads(done.stdout[done.stdout.index("{\n") :])
    assert [*by_fault] == faults
    for seen in by_fault.values():
        assert seen["replicas_at_the_end"] == 2
        assert seen["same_text_as_alone"] == 6
        assert seen["streams_that_resumed"] >= 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_second_replica_comes_with_the_load() -> None:
    command = _command("-m", "tests.deploy.replicas", "grow", "--streams", "6", "--sentences", "60")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    seen = json.loads(done.stdout[done.stdout.index("{\n") :])
    assert (seen["replicas"], seen["replicas_at_the_end"]) == (1, 2)
    assert seen["same_text_as_alone"] == seen["streams"] >= 6


@pytest.mark.slow
@pytest.mark.skipif(not _CAN_MAKE_NAMESPACES, reason="needs root and network namespaces")
@pytest.mark.timeout(600)
def test_readers_outlive_the_loss_of_a_node() -> None:
    command = [sys.executable, "-m", "tests.deploy.replicas", "node"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_a_replica_asks_for_its_engines_threads_and_one_core_for_http(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(**options: int) -> object:
        options_of_the_actor = application(Options(**options))._bound_deployment.ray_actor_options
        assert options_of_the_actor is not None
        return options_of_the_actor["num_cpus"]

    monkeypatch.delenv("DRAGOMAN_THREADS", raising=False)
    assert (asked(), asked(engines=3)) == (2, 4)
    monkeypatch.setenv("DRAGOMAN_THREADS", "4")
    assert (asked(), asked(engines=3)) == (5, 13)


def test_the_config_file_says_what_the_application_understands() -> None:
    [described] = yaml.safe_load((ROOT / "deploy/ray/serve.yaml").read_text())["applications"]
    assert described["import_path"] == f"{application.__module__}:{application.__name__}"
    Options(**described["args"])
    for name, value in described["runtime_env"]["env_vars"].items():
        assert name.removeprefix("DRAGOMAN_").lower() in Settings.model_fields
        assert isinstance(value, str)


def test_the_commands_say_what_the_config_file_says() -> None:
    [described] = yaml.safe_load((ROOT / "deploy/ray/serve.yaml").read_text())["applications"]
    assert Options().engines == described["args"]["engines"]
    for text in ((ROOT / "deploy/ray/README.md").read_text(), sys.modules[application.__module__].__doc__ or ""):
        [(place, arguments)] = re.findall(r"^serve run (\S+) (.+)$", text, re.MULTILINE)
        assert place == described["import_path"]
        options = Options.model_validate(dict(argument.split("=") for argument in arguments.split()))
        assert options == Options(**described["args"])
