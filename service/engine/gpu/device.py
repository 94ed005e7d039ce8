"""Devices beyond plain operators: recording a step and replaying it, and copies that the CPU does not wait for.

On a GPU a step of a small model is hundreds of kernels, each shorter than Python takes to start it: recorded as one
CUDA graph they are started at once. Any other device runs the step again, so that the callers are tested without a GPU.
"""

from collections.abc import Callable

import torch
from torch import Tensor


class RepeatedStep:
    """A step that runs again instead of being replayed."""

    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step

    def replay(self) -> None:
        """Start the operations again; may return before they are done."""
        self._step()


CapturedStep = RepeatedStep | torch.cuda.CUDAGraph
"""Operations on tensors at fixed addresses, ready to run again."""


class Transfer:
    """A copy of tensors to the CPU that is under way; without an event it is over."""

    def __init__(self, tensors: list[Tensor], event: torch.cuda.Event | None = None) -> None:
        self._tensors = tensors
        self._event = event

    def wait(self) -> list[Tensor]:
        """Return the tensors once they are there: as they were when the copy began, and the caller's to change.

        Copies that were begun before have ended then, too.
        """
        if self._event is not None:
            self._event.synchronize()
        return self._tensors


class Executor:
    """A device without graphs. Operations run in the order of the calls."""

    records = False
    """True if captured steps are recorded, False if they are run again."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def capture(self, step: Callable[[], object]) -> CapturedStep:
        """Record the operations of `step`, which runs a few times for that, on the present values of its tensors."""
        step()  # as a recording does, so that no caller relies on unchanged tensors
        return RepeatedStep(step)

    def upload(self, tensor: Tensor) -> Tensor:
        """Copy a tensor of the CPU, which must not change afterwards, to the device."""
        return tensor.to(self._device)

    def download(self, *tensors: Tensor) -> Transfer:
        """Begin to copy tensors from the device to the CPU, after all earlier operations."""
        return Transfer([tensor.to("cpu", copy=True) for tensor in tensors])


class CudaExecutor(Executor):
    """A GPU, which becomes the current one of this process. Graphs share their memory: one runs at a time."""

    records = True

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        torch.cuda.set_device(device)
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def capture(self, step: Callable[[], object]) -> CapturedStep:
        # Twice before: libraries choose kernels and allocate workspaces when they first meet a shape, and neither
        # can be recorded.
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                for _ in range(2):
                    step()
            current.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                step()
        finally:
            torch.cuda.set_stream(current)  # a capture that fails leaves its own
        return graph

    def upload(self, tensor: Tensor) -> Tensor:
        # Pinned memory is not used again before the copy is done: PyTorch's allocator sees to that.
        return tensor.pin_memory().to(self._device, non_blocking=True)

    def download(self, *tensors: Tensor) -> Transfer:
        hosts = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors]
        for host, tensor in zip(hosts, tensors, strict=True):
            host.copy_(tensor, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return Transfer(hosts, event)


def executor_of(device: torch.device) -> Executor:
    """Return the executor of the device."""
    return CudaExecutor(device) if device.type == "cuda" else Executor(device)
