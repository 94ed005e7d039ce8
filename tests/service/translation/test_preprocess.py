"""Sentences as a model reads them, for tokenizers with and without case marks."""

from typing import cast

import pytest

from model.checkpoint_config import CheckpointConfig, Direction
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from service.registry.routing import Leg
from service.registry.served_model import ServedModel
from service.supervisor.pool import EnginePool
from service.text.glossary import EMPTY_GLOSSARY, Glossary
from service.translation.options import TranslationOptions
from service.translation.preprocess import EncodedSegment, Preprocessor
from tests.service.translation.noted import NotedPool

DIRECTION = Direction(source="en", target="fr")


def _encoded(
    text: str, tokenizer: Tokenizer, config: ModelConfig, glossary: Glossary = EMPTY_GLOSSARY
) -> EncodedSegment:
    checkpoint = CheckpointConfig(directions=(DIRECTION,), model=config)
    model = ServedModel("model", checkpoint, tokenizer, cast(EnginePool, NotedPool()))
    preprocessor = Preprocessor(Leg(model, DIRECTION), TranslationOptions(), glossary.find)
    [segment] = preprocessor.encode(0, text)
    return segment


@pytest.mark.parametrize("text", ["THE CAT SAT.", "The cat sat."])
def test_capitals_are_left_to_a_tokenizer_that_marks_case(
    text: str, case_marked_tokenizer: Tokenizer, config: ModelConfig
) -> None:
    encoded = _encoded(text, case_marked_tokenizer, config)
    assert encoded.source_ids == case_marked_tokenizer.encode(text, "fr", "en")
    assert not encoded.segment.capitals


def test_without_case_marks_a_sentence_in_capitals_is_read_in_lower_case(
    tokenizer: Tokenizer, config: ModelConfig
) -> None:
    encoded = _encoded("THE CAT SAT.", tokenizer, config)
    assert encoded.source_ids == tokenizer.encode("The cat sat.", "fr", "en")
    assert encoded.segment.capitals


def test_terms_of_a_case_marked_model_have_no_case_marks(config: ModelConfig, case_marked_tokenizer: Tokenizer) -> None:
    """A mark would make every capitalised word of a translation the beginning of the term."""
    glossary = Glossary({"cat": "Matou", "dog": "CHIEN ROUGE"})
    segment = _encoded("the cat and a dog", case_marked_tokenizer, config, glossary)
    expected = [case_marked_tokenizer.encode_target(words) for words in ("matou", "chien rouge")]
    assert [term.ids for term in segment.terms] == expected
