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

    def __init__(self, *, comes_back: bool, refusal: str | None = None) -> None:
        self.replacing = True
        self.refusal = refusal
        self.waits: list[float] = []
        self._comes_back = comes_back

    async def wait_until_loaded(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return self._comes_back


def _model(config: ModelConfig, tokenizer: Tokenizer, pool: LostPool) -> ServedModel:
    checkpoint = CheckpointConfig(directions=(Direction(source="en", target="fr"),), model=config)
    return ServedModel("a", checkpoint, tokenizer, cast(EnginePool, pool))


async def test_requests_wait_for_engines_and_are_refused_after_a_while(
    config: ModelConfig, tokenizer: Tokenizer
) -> None:
    pool = LostPool(comes_back=True)
    await _model(config, tokenizer, pool).wait_for_engines(7)
    assert pool.waits == [7]
    with pytest.raises(NotReady, match="being replaced") as refused:
        await _model(config, tokenizer, LostPool(comes_back=False)).wait_for_engines(7)
    assert refused.value.retry_after_seconds


async def test_a_refusal_has_the_reason(config: ModelConfig, tokenizer: Tokenizer) -> None:
    pool = LostPool(comes_back=False, refusal="its files have changed")
    with pytest.raises(NotReady, match="its files have changed"):
        await _model(config, tokenizer, pool).wait_for_engines(7)


async def test_a_model_without_a_loss_does_not_wait(config: ModelConfig, tokenizer: Tokenizer) -> None:
    pool = LostPool(comes_back=False)
    pool.replacing = False
    await _model(config, tokenizer, pool).wait_for_engines(7)
    assert pool.waits == []
