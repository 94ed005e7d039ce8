"""Several processes started by torchrun, or one: the same calls either way."""

import os
from collections.abc import Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

import torch
from torch import distributed, nn

# The other processes wait while the first one prepares the pack.
_LONGEST_WAIT: Final = timedelta(hours=24)


def find_device(name: str) -> torch.device:
    """Raises `ValueError` for one that is not, or not here."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device: {name} is not one; use cpu, cuda, cuda:1, ...") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: {name} is not available here")
    return device


class Group:
    """The processes of this run. As a context manager it joins them, and leaves at the end."""

    def __init__(self, device: str) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.device = find_device(device)
        if self.size > 1 and device == "cuda":
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))

    def __enter__(self) -> Self:
        if self.size > 1:
            is_cuda = self.device.type == "cuda"
            if is_cuda:
                torch.cuda.set_device(self.device)  # what collectives of Python objects go through
            distributed.init_process_group(
                "nccl" if is_cuda else "gloo",
                timeout=_LONGEST_WAIT,
                device_id=self.device if is_cuda else None,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.size > 1:
            distributed.destroy_process_group()

    @property
    def is_first(self) -> bool:
        """True in the process that writes files and logs."""
        return self.rank == 0

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the gradients of all processes, as one block; all of them must call."""
        if self.size == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        block = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(block)
        start = 0
        for gradient in gradients:
            gradient.copy_(block[start : start + gradient.numel()].view_as(gradient))
            start += gradient.numel()

    def sum(self, *values: float) -> list[float]:
        """Sum each value over the processes; all of them must call."""
        if self.size == 1:
            return list(values)
        summed = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(summed)
        return summed.tolist()

    def gather(self, value: object) -> list[Any]:
        """Everybody's value, by rank; all of them must call."""
        gathered: list[Any] = [value]
        if self.size > 1:
            gathered = [None] * self.size
            distributed.all_gather_object(gathered, value)
        return gathered
