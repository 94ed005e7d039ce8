"""The machine that figures were taken on: processor, system, versions, load."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import torch

from service.process.hardware import usable_cores

_PACKAGES: Final = ("dragoman", "torch", "ctranslate2", "transformers")
_IDLE_LOAD: Final = 0.3
"""The highest load average without a warning."""


def load_average() -> list[float]:
    """Return the load averages of the last minute, five minutes and 15 minutes."""
    return [round(load, 2) for load in os.getloadavg()]


def describe() -> dict[str, object]:
    """Return processor, system and versions."""
    return {
        "cpu": _cpu(),
        "gpus": _gpus(),
        "cores": usable_cores(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in _PACKAGES},
    }


def warning(load: Sequence[float]) -> str | None:
    """Return a warning if other programs were running when the comparison began."""
    if load[0] < _IDLE_LOAD:
        return None
    return (
        f"The machine is busy: its load average was {load[0]:.2f} before the start. One program beside the engines "
        "slows every step of theirs many times over, and not all of them alike: do not trust these figures."
    )


def _gpus() -> list[str]:
    """Return the GPUs' names, with the version of CUDA that PyTorch was built for."""
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [f"{name}, CUDA {torch.version.cuda}" for name in names]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
