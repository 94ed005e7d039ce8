"""The device of a run or an evaluation, and the state of the random numbers that are drawn there."""

import torch
from torch import Tensor


def find_device(name: str) -> torch.device:
    """Raises `ValueError` for one that is not, or not here."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device: {name} is not one; use cpu, cuda, cuda:1, ...") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: {name} is not available here")
    return device


def random_state(device: torch.device) -> list[Tensor]:
    """Return the state of PyTorch's generators, for `set_random_state`."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def set_random_state(states: list[Tensor], device: torch.device) -> None:
    """Continue with the numbers that follow a state."""
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
