"""The memory budget: the models that are evicted, tested with engines that only have a size."""

import asyncio
import errno
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
import torch
from safetensors.torch import save_file

from model.checkpoint_config import CheckpointError
from service.errors import EngineFailed
from service.registry.memory_budget import MemoryBudget
from service.registry.model_version import ModelVersion, State
from service.registry.process_memory import MEGABYTE, estimated_bytes, resident_bytes
from service.registry.scan import FoundModel
from service.registry.served_model import ServedModel


class Pool:
    def __init__(self, pid: int, load: int, used_at: float) -> None:
        self.running = True
        self.load = load
        self.used_at = used_at
        self._pid = pid

    parent_pid = None
    zygote_pid = None

    @property
    def pids(self) -> list[int]:
        return [self._pid] if self.running else []

    async def stop(self) -> None:
        self.running = False


class Model:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool


@pytest.fixture(autouse=True)
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each process as many megabytes as its id."""
    found = "service.registry.model_version.resident_bytes"
    monkeypatch.setattr(found, lambda parent, pids, zygote: sum(pids) * MEGABYTE)


def _loaded(name: str, megabytes: int, used_at: float = 0.0, load: int = 0) -> ModelVersion:
    model = Model(Pool(megabytes, load, used_at))
    needed = megabytes * MEGABYTE
    return ModelVersion(FoundModel(name, Path(name), ""), State.READY, None, cast(ServedModel, model), True, needed)


def _unloaded(name: str, megabytes: int, load: int = 1) -> ModelVersion:
    version = _loaded(name, megabytes, load=load)
    assert version.model is not None
    version.model.pool.running = False
    version.evicted()
    return version


def _states(versions: list[ModelVersion]) -> Mapping[str, str]:
    return {each.name: each.state for each in versions}


async def test_the_least_recently_used_idle_models_are_evicted_as_needed() -> None:
    versions = [_loaded("a", 100, 3.0), _loaded("b", 100, 1.0), _loaded("c", 100, 2.0), _loaded("d", 100, 0.0, load=1)]
    wanted = _unloaded("e", 150)
    assert await MemoryBudget(450 * MEGABYTE).make_room(wanted, [*versions, wanted])
    assert _states(versions) == {"a": "ready", "b": "unloaded", "c": "ready", "d": "ready"}
    assert await MemoryBudget(400 * MEGABYTE).make_room(wanted, [*versions, wanted])
    assert _states(versions) == {"a": "ready", "b": "unloaded", "c": "unloaded", "d": "ready"}


async def test_a_busy_model_is_waited_for_as_long_as_a_request_waits() -> None:
    busy, wanted = _loaded("a", 300, load=1), _unloaded("b", 200)
    assert busy.model is not None
    assert wanted.model is not None
    making = asyncio.create_task(MemoryBudget(400 * MEGABYTE).make_room(wanted, [busy, wanted]))
    await asyncio.sleep(0)
    assert not making.done()
    cast(Pool, busy.model.pool).load = 0
    assert await making
    assert busy.state == "unloaded"

    again = asyncio.create_task(MemoryBudget(200 * MEGABYTE).make_room(wanted, [_loaded("c", 100, load=1), wanted]))
    await asyncio.sleep(0)
    cast(Pool, wanted.model.pool).load = 0
    assert not await again


async def test_a_model_that_never_fits_is_refused() -> None:
    budget = MemoryBudget(100 * MEGABYTE)
    with pytest.raises(EngineFailed, match="its engines take about 150 MB, max_models_memory_mb is 100"):
        budget.fits(_unloaded("a", 150), [])
    with pytest.raises(EngineFailed, match="150 MB"):
        budget.measure(_loaded("a", 150))
    assert MemoryBudget().fits(_unloaded("a", 150), []), "without a limit, every model fits"


async def test_a_grown_model_is_evicted_when_it_is_idle() -> None:
    versions = [_loaded("a", 300, 1.0, load=1), _loaded("b", 200, 0.0)]
    await MemoryBudget(400 * MEGABYTE).shrink(versions)
    assert _states(versions) == {"a": "ready", "b": "unloaded"}
    await MemoryBudget(250 * MEGABYTE).shrink(versions)
    assert _states(versions) == {"a": "ready", "b": "unloaded"}, "a busy model stays"


def test_memory_is_estimated_from_weights(tmp_path: Path) -> None:
    """Weights are loaded in float32, whatever type they are stored in."""

    def estimated(weights: dict[str, torch.Tensor], engines: int) -> int:
        save_file(weights, tmp_path / "model.safetensors")
        return estimated_bytes(tmp_path, engines)

    half, whole = torch.zeros(10, 100, dtype=torch.float16), torch.zeros(7)
    assert estimated({"a": half, "b": whole}, 3) == estimated({}, 3) + 4 * 1007 == 3 * estimated({}, 1) + 4 * 1007
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        estimated_bytes(tmp_path, 1)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_counts_living_processes() -> None:
    assert resident_bytes(None, [os.getpid()]) > MEGABYTE
    assert resident_bytes(None, [2**22 + 1]) == 0


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read from /proc")
def test_memory_shared_by_forks_counts_once() -> None:
    """The measure agrees with the system's count page by page, except for changed pages."""
    program = """
import os, sys
shared = b"x" * 300_000_000
is_fork = os.fork() == 0 or os.fork() == 0
own = b"y" * 50_000_000 if is_fork else b""
os.write(1, b"%d\\n" % os.getpid())
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids = {int(process.stdout.readline()) for _ in range(3)}
        exact = sum(_proportional(pid) for pid in pids)
        found = resident_bytes(process.pid, pids - {process.pid})
        process.communicate()
    assert 400 * MEGABYTE < exact < 450 * MEGABYTE
    assert found == pytest.approx(exact, abs=20 * MEGABYTE)


def _proportional(pid: int) -> int:
    [kilobytes] = re.findall(r"^Pss:\s*([0-9]+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return 1024 * int(kilobytes)


def test_without_a_free_descriptor_memory_is_unknown_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.Process", _no_descriptor)
    assert resident_bytes(os.getpid(), [os.getpid()]) == 0


def _no_descriptor(pid: int) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
