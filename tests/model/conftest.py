"""Shared fixtures of the tests of the C++ operators."""

import shutil
from collections.abc import Iterator

import pytest
import torch

from model import kernels


@pytest.fixture
def operators() -> None:
    """Skips where there is no compiler at all; one that is there must be able to build them."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler: the operators cannot be built here")
    assert kernels.load()


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    best, *_ = available = torch.ops.dragoman.variants()
    if request.param not in available:
        pytest.skip(f"this processor does not run {request.param}")
    torch.ops.dragoman.choose_variant(request.param)
    yield str(request.param)
    torch.ops.dragoman.choose_variant(best)
