"""Tests of the hardware found: GPUs, without one, and cores under limits."""

from pathlib import Path

import pytest

from service.process.hardware import has_cpu_limit, usable_cores, usable_gpus, visible_gpus


@pytest.mark.parametrize(("answer", "count"), [("print(3)", 3), ("raise ImportError", 0)])
def test_pytorch_is_asked_for_gpus_where_there_is_a_driver(
    answer: str, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("service.process.hardware._COUNT_GPUS", answer)
    monkeypatch.setattr("service.process.hardware._GPU_DRIVERS", [tmp_path / "none"])
    monkeypatch.setattr("service.process.hardware.visible_gpus", visible_gpus.__wrapped__)
    assert usable_gpus() == 0
    monkeypatch.setattr("service.process.hardware._GPU_DRIVERS", [tmp_path / "none", tmp_path])
    assert usable_gpus() == count


@pytest.fixture
def cgroups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Limits of the process' cgroup a/b.slice/c.service, on a machine of 16 cores; none is set yet."""
    (tmp_path / "a" / "b.slice" / "c.service").mkdir(parents=True)
    own = tmp_path / "own"
    own.write_text("12:cpu:/elsewhere\n0::/a/b.slice/c.service\n")
    monkeypatch.setattr("service.process.hardware._CGROUPS", tmp_path)
    monkeypatch.setattr("service.process.hardware._OWN_CGROUP", own)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(16)), raising=False)
    return tmp_path


def test_the_tightest_limit_from_the_own_cgroup_up_to_the_root_counts(cgroups: Path) -> None:
    assert usable_cores() == 16
    (cgroups / "a" / "b.slice" / "c.service" / "cpu.max").write_text("max 100000")
    assert usable_cores() == 16
    assert not has_cpu_limit()
    (cgroups / "a" / "cpu.max").write_text("1600000 100000")
    assert not has_cpu_limit()
    (cgroups / "a" / "cpu.max").write_text("650000 100000")
    assert usable_cores() == 6
    assert has_cpu_limit()
    (cgroups / "a" / "b.slice" / "cpu.max").write_text("200000 50000")
    assert usable_cores() == 4
    (cgroups / "cpu.max").write_text("10000 100000")
    assert usable_cores() == 1


def test_a_container_that_sees_its_own_limit_at_the_root_is_held_to_it(cgroups: Path) -> None:
    (cgroups / "own").write_text("0::/docker/0123456789\n")
    (cgroups / "cpu.max").write_text("300000 100000")
    assert usable_cores() == 3


def test_without_cgroups_the_affinity_counts(cgroups: Path) -> None:
    (cgroups / "own").unlink()
    assert usable_cores() == 16
