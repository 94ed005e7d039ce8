import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.main import app
from service.cli.settings_options import load_settings
from service.settings import Settings, unknown_variables
from service.settings.retired import RETIRED


def test_flags_over_environment_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_SLOTS", "7")
    monkeypatch.setenv("DRAGOMAN_PORT", "6001")
    settings = load_settings(port="6002", max_waiting="3")
    assert (settings.slots, settings.port, settings.max_waiting) == (7, 6002, 3)
    assert settings.host == "127.0.0.1"


def test_replicas_are_as_many_as_cores_up_to_four(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "cpu.max"
    own = tmp_path / "own"
    own.write_text("0::/\n")
    monkeypatch.setattr("service.process.hardware._CGROUPS", tmp_path)
    monkeypatch.setattr("service.process.hardware._OWN_CGROUP", own)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(3)), raising=False)
    assert Settings().replicas == 3
    for line, expected in (("max 100000", 3), ("200000 100000", 2), ("50000 100000", 1), ("900000 100000", 3)):
        limit.write_text(line)
        assert Settings().replicas == expected
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(64)), raising=False)
    limit.unlink()
    assert Settings().replicas == 4
    assert Settings(threads=20).replicas == 3
    assert Settings(threads=100).replicas == 1
    assert Settings(replicas=9).replicas == 9


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Pretend that the machine has this many GPUs."""

    def found(count: int) -> None:
        for name in ("usable_gpus", "visible_gpus"):
            monkeypatch.setattr(f"service.process.hardware.{name}", lambda: count)

    return found


def test_a_gpu_is_used_if_there_is_one(gpus: Callable[[int], None]) -> None:
    gpus(2)
    found = Settings()
    assert (found.device, found.mode, found.replicas) == ("cuda", "bf16", 2)
    assert (found.slots, found.max_waiting) == (512, 512)
    few = Settings(slots=16, max_waiting=7)
    assert (few.slots, few.max_waiting) == (16, 7)
    one = Settings(device="cuda:1")
    assert (one.device, one.mode, one.replicas) == ("cuda:1", "bf16", 1)
    assert Settings(device="cpu").mode == "int8"
    assert Settings(mode="fp32", replicas=5).replicas == 5

    gpus(0)
    without = Settings()
    assert (without.device, without.mode) == ("cpu", "int8")
    assert (without.slots, without.max_waiting) == (64, 256)


def test_a_device_that_does_not_exist() -> None:
    """Settings whose defaults depend on it are not reported too."""
    result = CliRunner().invoke(app, ["serve", "--device", "tpu"])
    assert result.exit_code == 2
    assert "device: " in result.output
    assert "mode" not in result.output


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--device", "cpuu", "device: must be auto, cpu, cuda, or the number of a GPU: cuda:0, cuda:1, ..."),
        ("--device", "cuda:x", "device: must be auto, cpu, cuda, or the number of a GPU: cuda:0, cuda:1, ..."),
        ("--cors-origins", "a.example", "cors_origins.0: must be * or origins, which have no path: https://a.exa"),
        ("--cors-origins", "*,https://a.example/b", "cors_origins.1: must be * or origins, which have no path: http"),
        ("--trusted-proxies", "::1,proxy", "trusted_proxies.1: must be addresses or networks: 10.0.0.1, 10.0.0.0/8"),
        ("--redis-url", "http://a", "redis_url: URL scheme should be"),
        ("--stream-secret", "short", "stream_secret: must have at least 16 characters"),
        ("--mode", "int4", "mode: must be int8, fp32 or bf16"),
        ("--log-level", "loud", "log_level: must be debug, info, warning or error"),
        ("--port", "70000", "port: must be a whole number from 0 to 65535"),
        ("--port", "abc", "port: must be a whole number from 0 to 65535"),
        ("--max-models-memory-mb", "0", "max_models_memory_mb: must be a whole number of at least 1"),
        ("--cache-mb", "-1", "cache_mb: must be a whole number of at least 0"),
        ("--cache-mb", "much", "cache_mb: must be a whole number of at least 0"),
        ("--cache-mb", "0.5", "cache_mb: must be a whole number of at least 0"),
        ("--request-timeout-seconds", "0", "request_timeout_seconds: must be a number above 0"),
        ("--drain-seconds", "x", "drain_seconds: must be a number of at least 0"),
        ("--mode", "bf16 --shortlist", "shortlist: needs the mode int8 or fp32 on a CPU, not bf16 on cpu"),
        ("--models", "x --model y", "model and models: only one of them can be set"),
    ],
)
def test_allowed_values_are_named_in_words(flag: str, value: str, message: str) -> None:
    result = CliRunner().invoke(app, ["serve", flag, *value.split(" ")])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"dragoman: {message}")
    assert not set("^$\\") & set(result.stderr)


def test_a_setting_that_is_gone_is_refused_with_what_took_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not RETIRED.keys() & Settings.model_fields.keys()
    name, sentence = next(iter(RETIRED.items()))
    for flag in (f"--{name.replace('_', '-')}", f"--no-{name.replace('_', '-')}"):
        done = CliRunner().invoke(app, ["serve", f"{flag}=3"])
        assert (done.exit_code, done.stderr) == (2, f"dragoman: {flag} is no setting any more: {sentence}\n")
    monkeypatch.setenv(f"dragoman_{name}", "3")
    for command in (["serve"], ["translate", "Yes."]):
        done = CliRunner().invoke(app, command)
        assert (done.exit_code, done.stderr) == (2, f"dragoman: dragoman_{name} is no setting any more: {sentence}\n")


def test_variables_that_are_no_settings_are_reported_with_what_they_may_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.upper().startswith("DRAGOMAN_")]:
        monkeypatch.delenv(name)
    for name in ("DRAGOMAN_SLOTS", "dragoman_replicas", "DRAGOMAN_API_KEY", "DRAGOMAN_BIND", "OTHER_SLOTZ"):
        monkeypatch.setenv(name, "8")
    assert unknown_variables() == []
    monkeypatch.setenv("DRAGOMAN_SLOTZ", "8")
    monkeypatch.setenv("DRAGOMAN_PORT_80_TCP", "tcp://10.0.0.1:80")
    assert unknown_variables() == [
        "DRAGOMAN_PORT_80_TCP is no setting",
        "DRAGOMAN_SLOTZ is no setting; is it DRAGOMAN_SLOTS?",
    ]
