"""Which model gives way, with engines that only have a size."""

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
from service.registry.entry import Entry, State
from service.registry.memory_budget import Room
from service.registry.process_memory import MEGABYTE, estimated_bytes, resident_bytes
from service.registry.scan import Found
from service.registry.served_model import ServedModel


class Pool:
    def __init__(self, pid: int, load: int = 0) -> None:
        self.running = True
        self.load = load
        self._pid = pid

    parent_pid = None

    @property
    def pids(self) -> list[int]:
        return [self._pid] if self.running else []

    async def stop(self) -> None:
        self.running = False


class Model:
    def __init__(self, pool: Pool, used_at: float) -> None:
        self.pool = pool
        self.used_at = used_at


@pytest.fixture(autouse=True)
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process takes as many megabytes as its number says."""
    monkeypatch.setattr("service.registry.entry.resident_bytes", lambda parent, pids: sum(pids) * MEGABYTE)


def _loaded(name: str, megabytes: int, used_at: float = 0.0, load: int = 0) -> Entry:
    model = Model(Pool(megabytes, load), used_at)
    needed = megabytes * MEGABYTE
    return Entry(Found(name, Path(name), ""), State.READY, None, cast(ServedModel, model), True, needed)


def _unloaded(name: str, megabytes: int, load: int = 1) -> Entry:
    entry = _loaded(name, megabytes, load=load)
    assert entry.model is not None
    entry.model.pool.running = False
    entry.state = State.UNLOADED
    return entry


def _states(entries: list[Entry]) -> Mapping[str, str]:
    return {each.name: each.state for each in entries}


async def test_the_least_recently_used_of_the_idle_go_as_many_as_have_to() -> None:
    entries = [_loaded("a", 100, 3.0), _loaded("b", 100, 1.0), _loaded("c", 100, 2.0), _loaded("d", 100, 0.0, load=1)]
    wanted = _unloaded("e", 150)
    assert await Room(450 * MEGABYTE).make(wanted, [*entries, wanted])
    assert _states(entries) == {"a": "ready", "b": "unloaded", "c": "ready", "d": "ready"}
    assert await Room(400 * MEGABYTE).make(wanted, [*entries, wanted])
    assert _states(entries) == {"a": "ready", "b": "unloaded", "c": "unloaded", "d": "ready"}


async def test_a_busy_model_is_waited_for_as_long_as_anybody_waits() -> None:
    busy, wanted = _loaded("a", 300, load=1), _unloaded("b", 200)
    assert busy.model is not None
    assert wanted.model is not None
    making = asyncio.create_task(Room(400 * MEGABYTE).make(wanted, [busy, wanted]))
    await asyncio.sleep(0)
    assert not making.done()
    cast(Pool, busy.model.pool).load = 0
    assert await making
    assert busy.state == "unloaded"

    again = asyncio.create_task(Room(200 * MEGABYTE).make(wanted, [_loaded("c", 100, load=1), wanted]))
    await asyncio.sleep(0)
    cast(Pool, wanted.model.pool).load = 0
    assert not await again


async def test_what_never_fits_is_refused() -> None:
    room = Room(100 * MEGABYTE)
    with pytest.raises(EngineFailed, match="its engines take about 150 MB, max_models_memory_mb is 100"):
        room.has(_unloaded("a", 150), [])
    with pytest.raises(EngineFailed, match="150 MB"):
        room.measure(_loaded("a", 150))
    assert Room().has(_unloaded("a", 150), []), "without a limit all do"


async def test_what_has_grown_goes_when_it_is_idle() -> None:
    entries = [_loaded("a", 300, 1.0, load=1), _loaded("b", 200, 0.0)]
    await Room(400 * MEGABYTE).tidy(entries)
    assert _states(entries) == {"a": "ready", "b": "unloaded"}
    await Room(250 * MEGABYTE).tidy(entries)
    assert _states(entries) == {"a": "ready", "b": "unloaded"}, "one that is busy stays"


def test_memory_is_estimated_from_weights(tmp_path: Path) -> None:
    """However they are stored: they are loaded in float32."""

    def estimated(weights: dict[str, torch.Tensor], engines: int) -> int:
        save_file(weights, tmp_path / "model.safetensors")
        return estimated_bytes(tmp_path, engines)

    half, whole = torch.zeros(10, 100, dtype=torch.float16), torch.zeros(7)
    assert estimated({"a": half, "b": whole}, 3) == estimated({}, 3) + 4 * 1007 == 3 * estimated({}, 1) + 4 * 1007
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        estimated_bytes(tmp_path, 1)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_is_that_of_living_processes() -> None:
    assert resident_bytes(None, [os.getpid()]) > MEGABYTE
    assert resident_bytes(None, [2**22 + 1]) == 0


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read from /proc")
def test_what_forks_share_counts_once() -> None:
    """What the system finds where it looks at every page, but for what they have changed."""
    program = """
import os, sys
shared = b"x" * 300_000_000
is_fork = os.fork() == 0 or os.fork() == 0
own = b"y" * 50_000_000 if is_fork else b""
print(os.getpid(), flush=True)
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


def test_without_a_free_descriptor_nothing_is_known_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.Process", _no_descriptor)
    assert resident_bytes(os.getpid(), [os.getpid()]) == 0


def _no_descriptor(pid: int) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
