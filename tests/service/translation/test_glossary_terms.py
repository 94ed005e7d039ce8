"""Terms of a glossary whose place in a translation is not known."""

import asyncio

from model.beam_search import Inspection
from service.engine.messages import TokenReport
from service.text.glossary import Glossary
from service.translation.options import TranslationOptions
from service.translation.translator import Translator
from tests.service.translation.noted import NotedPool


async def test_without_readable_attention_the_model_reads_a_placeholder(
    translator: Translator, pool: NotedPool
) -> None:
    options = TranslationOptions(glossary=Glossary({"cat": "matou"}))
    translation = translator.start(["The cat sleeps."], "en", "fr", options)
    [free] = pool.requests
    assert free.inspect.attention
    assert not free.constraints.terms
    even = Inspection(attention=[1 / len(free.prompt.source_ids)] * len(free.prompt.source_ids))
    pool.generations[0].deliver(TokenReport(0, 40, 0.0, inspection=even))
    pool.generations[0].deliver(TokenReport(0, 2, 0.0, "stop", inspection=even))
    finishing = asyncio.create_task(translation.finished())
    for _ in range(20):
        await asyncio.sleep(0)
    [term] = pool.requests[1].constraints.terms
    pool.generations[1].deliver(TokenReport(1, term.ids[0], 0.0, term=0))
    pool.end(1)
    assert (await finishing).translations[0].text == "Matou"
    translation.close()
