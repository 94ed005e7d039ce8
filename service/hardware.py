"""The hardware for engines: usable cores, within the limit of a container, and GPUs. Knows no settings."""

import functools
import os
import subprocess
from pathlib import Path
from typing import Final

from service.interpreter import python_command

_CPU_LIMIT: Final = Path("/sys/fs/cgroup/cpu.max")  # of a container: "QUOTA PERIOD" in microseconds, or "max PERIOD"

# Files of NVIDIA's driver on Linux, and of the Windows driver in WSL.
_GPU_DRIVERS: Final = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
_COUNT_GPUS: Final = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"


def usable_gpus() -> int:
    """Count the GPUs that the engines' PyTorch can use; without a driver of NVIDIA's, 0 at once."""
    return visible_gpus() if any(driver.exists() for driver in _GPU_DRIVERS) else 0


@functools.cache
def visible_gpus() -> int:
    """Ask PyTorch how many GPUs it can use, in another process and for some seconds.

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
    """Count the cores that this process may use, within a container's limit on processor time; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CPU_LIMIT.read_text(encoding="ascii").split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or no limit
        return cores
