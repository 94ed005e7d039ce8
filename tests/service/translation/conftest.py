"""Translators with an engine that only records its requests."""

from typing import cast

import pytest

from model.checkpoint_config import CheckpointConfig, Direction
from model.config import ModelConfig
from model.tokenizer import Prompt, Tokenizer
from service.registry.routing import Routes
from service.registry.served_model import ServedModel
from service.supervisor.pool import EnginePool
from service.translation.translator import Translator
from tests.service.translation.noted import LIMITS, NotedPool, Of, Offered


@pytest.fixture
def pool() -> NotedPool:
    return NotedPool()


@pytest.fixture
def translator_of(config: ModelConfig, tokenizer: Tokenizer, pool: NotedPool) -> Of:
    def made(*directions: str) -> Translator:
        pairs = tuple(Direction(source=each.split("-", 1)[0], target=each.split("-", 1)[1]) for each in directions)
        prompted = Tokenizer(tokenizer.files, Prompt(text_prefix="{source}: "))
        checkpoint = CheckpointConfig(directions=pairs, model=config.model_copy(update={"max_positions": 96}))
        routes = Routes([ServedModel("model", checkpoint, prompted, cast(EnginePool, pool))])
        return Translator(Offered(routes), LIMITS)

    return made


@pytest.fixture
def translator(translator_of: Of) -> Translator:
    return translator_of("en-fr", "de-fr", "fr-en")
