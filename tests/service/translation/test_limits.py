"""Limits on the length of texts and sentences, and the errors that name them."""

from typing import cast

import pytest

from model.checkpoint_config import CheckpointConfig, Direction
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from service.errors import TooLong
from service.registry.served_model import ServedModel
from service.supervisor.pool import EnginePool
from service.text.glossary import Glossary
from service.translation.options import TranslationOptions
from service.translation.translator import FieldNames, Translator
from tests.service.translation.noted import NotedPool


@pytest.mark.parametrize(
    ("checkpoint_limit", "expected"),
    [(None, 48), (20, 20), (90, 48)],
)
def test_the_length_limit_of_a_sentence(
    config: ModelConfig, tokenizer: Tokenizer, checkpoint_limit: int | None, expected: int
) -> None:
    """The checkpoint has it; half of the positions is the maximum."""
    directions = (Direction(source="en", target="fr"),)
    model = config.model_copy(update={"max_positions": 96})
    checkpoint = CheckpointConfig(directions=directions, max_sentence_tokens=checkpoint_limit, model=model)
    served = ServedModel("model", checkpoint, tokenizer, cast(EnginePool, NotedPool()))
    assert served.max_sentence_tokens == expected


@pytest.mark.parametrize(("translation", "placeholders"), [("chat", 0), ("un chat très long et très gros", 4)])
async def test_the_model_does_not_read_terms_that_are_longer_than_a_sentence(
    translator: Translator, pool: NotedPool, translation: str, placeholders: int
) -> None:
    text = "The cat and the cat and the cat and the cat."
    translator.start([text], "en", "fr", TranslationOptions(glossary=Glossary({"cat": translation})))
    [request] = pool.requests
    assert len(request.constraints.terms) == placeholders


async def test_errors_name_the_fields_of_the_caller(translator: Translator) -> None:
    names = FieldNames(text="text")
    for texts in (["a" * 10_001], ["a"] * 11):
        with pytest.raises(TooLong, match=r"^text: "):
            translator.start(texts, "en", "fr", TranslationOptions(), names)


async def test_a_target_prefix_is_measured_before_it_is_tokenized(translator: Translator) -> None:
    most = translator.limits.max_characters
    with pytest.raises(TooLong, match=rf"^target_prefix: {most + 1} characters, the limit is {most}$"):
        translator.start(["The cat."], "en", "fr", TranslationOptions(target_prefix="x" * (most + 1)))
