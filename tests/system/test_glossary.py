"""Glossaries against a real server: in every kind of search, in streams, and among what else is kept in texts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.system.conftest import Server
from tests.system.sse import stream, text_of

GLOSSARY = {"cat": "matou", "black cat": "félin noir"}
LANGUAGES = {"source": "en", "target": "fr"}
_PAGE = Path("docs/glossaries.md").read_text(encoding="utf-8").splitlines()
EXAMPLES = [[cell.strip() for cell in line.strip("|").split("|")] for line in _PAGE if line.startswith("| ")][1:]
"""The rows of the page's table: a sentence, terms, and the translation."""


def _translate(server: Server, q: str | list[str], **options: Any) -> Any:
    return server.translated(q, **{**LANGUAGES, "glossary": GLOSSARY, **options})


@pytest.mark.parametrize(
    "options",
    [{}, {"beam_size": 4}, {"temperature": 0.3, "seed": 3}, {"alternatives": 3}, {"glossary": json.dumps(GLOSSARY)}],
)
def test_its_terms_are_written(server: Server, options: dict[str, Any]) -> None:
    answer = _translate(server, ["I have a cat.", "The black cat sleeps.", "My dog sleeps."], **options)
    cat, black_cat, dog = answer["translatedText"]
    assert "matou" in cat.lower()
    assert " félin noir" in black_cat
    assert " chien " in dog
    for other in answer.get("alternatives", [[]])[0]:
        assert "matou" in other.lower()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[1])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_every_example_of_the_page_is_true(server: Server, example: list[str], beam_size: int) -> None:
    sentence, terms, expected = example
    glossary = dict(term.split(": ") for term in terms.split("; "))
    assert _translate(server, sentence, glossary=glossary, beam_size=beam_size)["translatedText"] == expected


@pytest.mark.parametrize("beam_size", [1, 4])
async def test_the_same_terms_in_any_company(server: Server, beam_size: int) -> None:
    texts = [sentence for sentence, *_ in EXAMPLES]
    glossary = dict(term.split(": ") for _, terms, _ in EXAMPLES for term in terms.split("; "))
    body = {**LANGUAGES, "glossary": glossary, "beam_size": beam_size}
    alone = [_translate(server, text, **body)["translatedText"] for text in texts]
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
        # Another length penalty, so that the cache knows none of them.
        asked = [client.post("/translate", json={"q": text, **body, "length_penalty": 1.0001}) for text in texts * 2]
        answers = await asyncio.gather(*asked)
    assert [answer.json()["translatedText"] for answer in answers] == alone * 2


def test_what_the_target_prefix_has_stays(server: Server) -> None:
    translated = _translate(server, "I see a cat.", target_prefix="Je regarde un chat")["translatedText"]
    assert translated == "Je regarde un chat."


def test_a_term_of_any_length_fits(server: Server) -> None:
    assert _translate(server, "I see a cat.", glossary={"cat": "x" * 200})["translatedText"].count("x" * 200) == 1
    cut = _translate(server, "I see a cat.", max_new_tokens=5)["translatedText"]
    assert cut == "Je vois un matou"


async def test_a_stream_has_them_too(server: Server) -> None:
    text = "I have a cat. The black cat sleeps.\n- I AM A CAT."
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        streamed = text_of(await stream(client, text, glossary=GLOSSARY))
        of_beam = text_of(await stream(client, text, glossary=GLOSSARY, beam_size=4))
        query = httpx.QueryParams({"q": text, **LANGUAGES, "glossary": json.dumps(GLOSSARY)})
        listened = await client.get(f"/translate/stream?{query}")
    assert streamed == _translate(server, text)["translatedText"]
    assert of_beam == _translate(server, text, beam_size=4)["translatedText"]
    assert " matou" in streamed
    assert " MATOU" in streamed
    assert "\n- JE " in streamed
    assert json.dumps({"translatedText": streamed}, ensure_ascii=False)[:-1] in listened.text.replace('":"', '": "')


def test_among_tags_addresses_and_placeholders(server: Server) -> None:
    html = '<p>I see a <b>cat</b> on <a href="/cat">https://cat.org/cat</a> and {cat}.</p>'
    translated = _translate(server, html, format="html", glossary={"cat": "R&D"})["translatedText"]
    for kept in ("<b>R&amp;D</b>", '<a href="/cat">https://cat.org/cat</a>', "{cat}"):
        assert translated.count(kept) == 1, translated


@pytest.mark.parametrize(
    ("glossary", "problem"),
    [
        ({"": "x"}, "glossary"),
        ({"cat": " "}, "glossary.cat"),
        ({"cat": 1}, "glossary.cat"),
        ({"cat": "x" * 201}, "glossary.cat"),
        ({str(number): "x" for number in range(10_001)}, "glossary"),
        (["cat"], "glossary"),
        ("[" * 5_000, "glossary: must be an object, in JSON"),
    ],
)
def test_a_glossary_that_cannot_be_used_is_refused(server: Server, glossary: Any, problem: str) -> None:
    response = httpx.post(f"{server.url}/translate", json={"q": "a", **LANGUAGES, "glossary": glossary})
    assert response.status_code == 400
    assert response.json()["error"].startswith(problem)
