"""The rule by which a loss of a replica is repeated. tests/deploy/test_ray.py has the losses themselves."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.replicas import until_noticed

UNNOTICED = {"streams": 6, "streams_that_resumed": 0, "same_text_as_alone": 6, "replicas_at_the_end": 2}
NOTICED = UNNOTICED | {"streams_that_resumed": 2}


def _last_of(losses: Iterator[dict[str, Any]]) -> dict[str, Any]:
    async def lose_one() -> dict[str, Any]:
        return next(losses)

    return asyncio.run(until_noticed(lose_one))


def test_a_loss_that_nobody_noticed_is_tried_again() -> None:
    assert _last_of(iter([UNNOTICED, NOTICED, UNNOTICED])) == {"tries": 2, **NOTICED}


def test_but_not_for_ever() -> None:
    assert _last_of(iter([UNNOTICED] * 4)) == {"tries": 3, **UNNOTICED}


@pytest.mark.parametrize("wrong", [{"same_text_as_alone": 5}, {"replicas_at_the_end": 1}])
def test_what_went_wrong_is_not_tried_away(wrong: dict[str, int]) -> None:
    assert _last_of(iter([UNNOTICED | wrong, NOTICED])) == {"tries": 1, **UNNOTICED, **wrong}
