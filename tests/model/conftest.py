"""The variants of the C++ operators, one after the other."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    best, *_ = available = torch.ops.dragoman.variants()
    if request.param not in available:
        pytest.skip(f"this processor does not run {request.param}")
    torch.ops.dragoman.choose_variant(request.param)
    yield str(request.param)
    torch.ops.dragoman.choose_variant(best)
