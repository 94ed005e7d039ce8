"""Sentences that a translation memory has: no engine is asked for them."""

import json
from pathlib import Path
from typing import cast

import pytest

from model.checkpoint_config import CheckpointConfig, Direction
from model.config import ModelConfig
from model.tokenizer import Prompt, Tokenizer
from service.api.translate_request import AnswerShape, answer
from service.documents.units import UnitReport, read_units
from service.registry.routing import Routes
from service.registry.served_model import ServedModel
from service.stores.translation_memory import TranslationMemory
from service.supervisor.pool import EnginePool
from service.text.glossary import Glossary
from service.translation.events import Finished, SegmentFinished, TokenGenerated
from service.translation.options import TranslationOptions
from service.translation.translator import Translator
from tests.service.translation.noted import LIMITS, NotedPool, Offered

UNITS = "A <b>cat</b>.\tUn <b>matou</b>.\nOne. Two.\tUn, deux.\n"


@pytest.fixture
def translator(config: ModelConfig, tokenizer: Tokenizer, pool: NotedPool, tmp_path: Path) -> Translator:
    """From English into French; from German into French by way of English."""
    pairs = (Direction(source="en", target="fr"), Direction(source="de", target="en"))
    checkpoint = CheckpointConfig(directions=pairs, model=config.model_copy(update={"max_positions": 96}))
    routes = Routes([ServedModel("model", checkpoint, Tokenizer(tokenizer.files, Prompt()), cast(EnginePool, pool))])
    for name, text in (("a.en-fr.tsv", UNITS), ("b.de-fr.tsv", "Eine Katze.\tUne chatte.\n")):
        (tmp_path / name).write_text(text)
    files = sorted(tmp_path.glob("*.tsv"))
    memory = TranslationMemory({"": files}, lambda path: read_units(path, UnitReport()))
    memory.load()
    return Translator(Offered(routes), LIMITS, memory)


@pytest.mark.parametrize(
    ("source", "text", "is_html", "expected"),
    [
        ("en", " A cat.\n\nA cat. ", False, " Un matou.\n\nUn matou. "),
        ("en", "One. Two.\n", False, "Un, deux.\n"),
        ("en", "<p>A <i>cat</i>.</p>", True, "<p>Un <i>matou</i>.</p>"),
        ("de", "Eine Katze.", False, "Une chatte."),
    ],
)
async def test_no_engine_is_asked(
    translator: Translator, pool: NotedPool, source: str, text: str, is_html: bool, expected: str
) -> None:
    translation = translator.start([text], source, "fr", TranslationOptions(is_html=is_html, shows_matches=True))
    events = [event async for some in translation.events() for event in some]
    translation.close()
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.translations[0].text == expected
    assert "".join(each.text for each in events if isinstance(each, TokenGenerated)) == expected
    reasons = {each.finish_reason for each in events if isinstance(each, SegmentFinished)}
    assert reasons - {"copied"} == {"memory"}
    assert finished.usage.source_tokens == 0
    assert not pool.requests


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("A cat!", TranslationOptions()),
        ("A cat.", TranslationOptions(target_prefix="Un")),
        ("A cat.", TranslationOptions(glossary=Glossary({"cat": "minou"}))),
    ],
)
async def test_an_engine_is_asked(
    translator: Translator, pool: NotedPool, text: str, options: TranslationOptions
) -> None:
    translation = translator.start([text], "en", "fr", options)
    assert len(pool.requests) == 1
    translation.close()


async def test_matches_are_in_the_answer(translator: Translator) -> None:
    options = TranslationOptions(is_html=True, shows_matches=True)
    translation = translator.start(["<p>A <i>cat</i>.</p>"], "en", "fr", options)
    finished = await translation.finished()
    translation.close()
    matches = [{"source": "A <b>cat</b>.", "target": "Un <b>matou</b>.", "score": 100.0}]
    answered = json.loads(json.dumps(answer(finished, AnswerShape(matches=True))))
    assert answered == {"translatedText": "<p>Un <i>matou</i>.</p>", "matches": matches}
