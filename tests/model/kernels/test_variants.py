"""A variant of the operators can be chosen, if it runs here."""

from collections.abc import Iterator

import pytest

from model import kernels
from model.kernels import library


@pytest.fixture
def best(operators: None) -> Iterator[str]:
    best = library.variants()[0]
    yield best
    kernels.choose(best)


def test_a_variant_that_runs_here_is_chosen(best: str) -> None:
    kernels.choose("baseline")


def test_a_variant_that_does_not_run_here_is_refused(best: str) -> None:
    with pytest.raises(RuntimeError, match=f"for z80 do not run here; {best}.* do"):
        kernels.choose("z80")


def test_without_operators_there_is_no_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "load", lambda: False)
    with pytest.raises(RuntimeError, match="for avx2 do not run here; none do"):
        kernels.choose("avx2")
