"""The hardware for engines: usable cores, within the limit of a container, and GPUs. Knows no settings."""

import contextlib
import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from service.process.interpreter import python_command

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")

# Files of NVIDIA's driver on Linux, and of the Windows driver in WSL.
_GPU_DRIVERS: Final = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
_COUNT_GPUS: Final = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"


def usable_gpus() -> int:
    """Count the GPUs that the engines' PyTorch can use; returns 0 at once without NVIDIA's driver."""
    return visible_gpus() if any(driver.exists() for driver in _GPU_DRIVERS) else 0


@functools.cache
def visible_gpus() -> int:
    """Ask PyTorch how many GPUs it can use; takes another process and some seconds.

    The HTTP process itself does not load PyTorch.
    """
    done = subprocess.run(python_command("-c", _COUNT_GPUS), stdout=subprocess.PIPE, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0


def usable_device(name: str) -> str:
    """Resolve `auto`: the GPU if there is one, else the CPU. Other names are returned unchanged."""
    if name != "auto":
        return name
    return "cuda" if usable_gpus() else "cpu"


def usable_cores() -> int:
    """Count the cores that this process may use, within its limits of processor time; at least 1.

    A limit may be set on the process' own cgroup (a container) or on any above it (systemd's CPUQuota of a slice).
    """
    return max(1, int(min([_cores(), *_cpu_limits()])))


def has_cpu_limit() -> bool:
    """Return True if a limit of processor time leaves this process fewer cores than it may run on."""
    return any(limit < _cores() for limit in _cpu_limits())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_limits() -> Iterator[float]:
    """Limits in cores."""
    for text in _cgroup_files():
        # "QUOTA PERIOD" in microseconds, or "max PERIOD".
        with contextlib.suppress(ValueError):
            quota, period = text.split()
            yield int(quota) / int(period)


def _cgroup_files() -> Iterator[str]:
    """Yield cpu.max of each cgroup (v2) from the process' own up to the root, which lacks the file."""
    try:
        lines = _OWN_CGROUP.read_text(encoding="utf-8").splitlines()
    except OSError:  # only Linux has cgroups
        return
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    for group in (Path(own), *Path(own).parents):
        with contextlib.suppress(OSError, ValueError):
            yield (_CGROUPS / group / "cpu.max").read_text(encoding="ascii")
