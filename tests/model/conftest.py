"""What tests of the C++ operators share."""

import shutil

import pytest

from model import kernels


@pytest.fixture
def operators() -> None:
    """Skips where there is no compiler at all; one that is there must be able to build them."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler: the operators cannot be built here")
    assert kernels.load()
