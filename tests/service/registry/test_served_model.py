"""The wait of requests for the engines of their model."""

from typing import cast

import pytest

from model.checkpoint_config import CheckpointConfig, Direction
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from service.errors import NotReady
from service.registry.served_model import ServedModel
from service.supervisor.pool import EnginePool


class LostPool:
    """All engines are dead; they come back if `comes_back`."""

    def __init__(self, *, comes_back: bool, refusal: str | None = None, replacing: bool = True) -> None:
        self.replacing = replacing
        self.refusal = refusal
        self.waits: list[float] = []
        self._comes_back = comes_back

    async def wait_until_loaded(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return self._comes_back


@pytest.mark.parametrize(
    ("pool", "problem", "waits"),
    [
        (LostPool(comes_back=True), None, [7]),
        (LostPool(comes_back=False), "being replaced; try again in a moment", [7]),
        (LostPool(comes_back=False, refusal="its files have changed"), "its files have changed", [7]),
        (LostPool(comes_back=False, replacing=False), None, []),
    ],
)
async def test_requests_wait_for_engines_and_are_refused_after_a_while(
    config: ModelConfig, tokenizer: Tokenizer, pool: LostPool, problem: str | None, waits: list[float]
) -> None:
    checkpoint = CheckpointConfig(directions=(Direction(source="en", target="fr"),), model=config)
    model = ServedModel("a", checkpoint, tokenizer, cast(EnginePool, pool))
    if problem is None:
        await model.wait_for_engines(7)
    else:
        with pytest.raises(NotReady, match=problem) as refused:
            await model.wait_for_engines(7)
        assert refused.value.retry_after_seconds
    assert pool.waits == waits
