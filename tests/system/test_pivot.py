"""Pivot translations: two models in a row where no single model translates."""

import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from model.tokenizer import Tokenizer
from service.settings import EMBEDDED_MODEL
from tests.system.conftest import Server, run_server
from tests.system.models import relabel_embedded_model, write_model
from tests.system.sse import Event, read_events, stream, text_of


@pytest.fixture(scope="module")
def pivoting(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Iterator[Server]:
    """Models from German into English (nonsense), into French, and from French relabelled English into Italian."""
    directory = tmp_path_factory.mktemp("models")
    (directory / "en-fr").symlink_to(EMBEDDED_MODEL)
    write_model(directory / "fr-sv", tokenizer, "fr-sv", seed=3, positions=64)
    write_model(directory / "de-en", tokenizer, "de-en", seed=1, positions=120)
    relabel_embedded_model(directory / "fr-it", "fr-it")
    with run_server(tmp_path_factory.mktemp("server") / "log", "--models", str(directory)) as server:
        yield server


def test_it_is_one_translation_behind_the_other(pivoting: Server) -> None:
    text = "The cat sat on the mat."
    between = pivoting.translated(text, "en", "fr")["translatedText"]
    assert pivoting.translated(text, "en", "it") == {
        "translatedText": pivoting.translated(between, "fr", "it")["translatedText"],
        "pivot": "fr",
    }


async def test_what_is_too_long_for_the_second_model_is_split_again(pivoting: Server) -> None:
    text = "On Monday the black cat sat on the small mat, and the dog ran to the old house behind the big red table."
    between = pivoting.translated(text, "en", "fr", beam_size=2)["translatedText"]
    events = await _stream(pivoting, text, "en", "sv")
    assert sum(event.name == "segment" for event in events) > 1
    expected = pivoting.translated(between, "fr", "sv", beam_size=2)["translatedText"]
    assert events[-1].data["translatedText"] == expected


def test_capitals_are_restored_behind_both(pivoting: Server) -> None:
    quiet = pivoting.translated("The cat sat on the mat.", "en", "it")["translatedText"]
    assert pivoting.translated("THE CAT SAT ON THE MAT.", "en", "it")["translatedText"] == quiet.upper()


async def _stream(server: Server, q: str, source: str, target: str, **options: object) -> list[Event]:
    async with httpx.AsyncClient(base_url=server.url, timeout=60.0) as client:
        return await stream(client, q, source=source, target=target, beam_size=2, scores=True, **options)


async def test_a_stream_says_so_and_sends_the_second_translation(pivoting: Server) -> None:
    text = "The cat sat on the mat. It was black.\n\n- A dog ran.\n"
    whole = pivoting.translated(text, "en", "it", beam_size=2, scores=True)
    events = await _stream(pivoting, text, "en", "it")
    assert events[0].data["pivot"] == "fr"
    assert text_of(events) == whole["translatedText"]
    segments = [event.data for event in events if event.name == "segment"]
    assert [each["segment"] for each in segments] == list(range(len(segments)))
    assert "".join(each["text"] for each in segments) == whole["translatedText"]
    spans = dict.fromkeys(tuple(each["source"]) for each in segments)  # the second model may get two for one
    assert [text[start:end] for start, end in spans] == ["The cat sat on the mat.", "It was black.", "A dog ran."]
    done = events[-1].data
    assert (done["translatedText"], done["pivot"], done["scores"]) == (whole["translatedText"], "fr", whole["scores"])
    first = (await _stream(pivoting, text, "en", "fr"))[-1].data
    second = (await _stream(pivoting, first["translatedText"], "fr", "it"))[-1].data
    for name in ("source_tokens", "generated_tokens"):
        assert done["usage"][name] == first["usage"][name] + second["usage"][name]


def test_what_is_no_language_survives_both(pivoting: Server) -> None:
    text = "- See https://example.org/a?b=1 and {name}.\n\n\t12.5 %\n"
    translated = pivoting.translated(text, "en", "it")["translatedText"]
    for kept in ("https://example.org/a?b=1", "{name}"):
        assert translated.count(kept) == 1
    assert translated.startswith("- ")
    assert translated.endswith("\n\n\t12.5 %\n")


def test_markup_survives_both(pivoting: Server) -> None:
    html = (
        '<p title="A &quot;cat&quot;">The <b>black</b> cat &amp; <code>x &lt; y</code> <i translate="no">No</i>.</p>\n'
        "<!-- end --><br><p>Hello.</p>"
    )
    translated = pivoting.translated(html, "en", "it", format="html")["translatedText"]
    for kept in ("<code>x &lt; y</code>", '<i translate="no">No</i>', "<b>", "</b>", "</p>\n<!-- end --><br><p>"):
        assert translated.count(kept) == 1
    assert translated.startswith('<p title="')
    title = translated.removeprefix('<p title="').partition('">')[0]
    assert '"' not in title
    assert translated.endswith("</p>")


def test_each_text_goes_its_own_way(pivoting: Server) -> None:
    texts = ["Wo ist der Bahnhof?", "Where is the station?", "12"]
    answer = pivoting.translated(texts[:2], "auto", "fr")
    assert answer["pivot"] == ["en", None]
    assert answer["translatedText"][1] == pivoting.translated(texts[1], "en", "fr")["translatedText"]
    assert pivoting.translated(texts[2], "de", "fr") == {"translatedText": "12", "pivot": "en"}


def test_a_beginning_is_that_of_the_second_translation(pivoting: Server) -> None:
    # A first translation without a letter would leave nothing to begin.
    assert pivoting.translated("Guten Morgen", "de", "en")["translatedText"].isalpha()
    answer = pivoting.translated("Guten Morgen", "de", "fr", target_prefix="Le chat")
    assert answer["translatedText"].startswith("Le chat")
    refused = pivoting.ask("Die Katze. Der Hund schläft.", "de", "fr", target_prefix="Le chat")
    assert (refused.status_code, refused.json()["error"][:14]) == (400, "target_prefix:")


def test_alternatives_are_of_the_second_translation(pivoting: Server) -> None:
    between = pivoting.translated("The cat.", "en", "fr", beam_size=3)["translatedText"]
    answer = pivoting.translated("The cat.", "en", "it", alternatives=2, beam_size=3)
    second = pivoting.translated(between, "fr", "it", alternatives=2, beam_size=3)
    assert answer["alternatives"] == second["alternatives"]


async def test_self_attention_is_that_of_the_second_model(pivoting: Server) -> None:
    between = pivoting.translated("The cat.", "en", "fr", beam_size=2)["translatedText"]
    weights = []
    for text, source in (("The cat.", "en"), (between, "fr")):
        events = await _stream(pivoting, text, source, "it", self_attention=True)
        weights.append([event.data["self_attention"] for event in events if event.name == "token"])
    assert weights[0] == weights[1]
    assert len(weights[0]) > 2


GLOSSARY = {"cat": "micio", "black cat": "gatto nero", "R": "R&D"}
_STAND_INS = re.compile("[\U00010400-\U0001044f]")


@pytest.mark.parametrize("options", [{}, {"beam_size": 4}, {"temperature": 0.3, "seed": 3}, {"alternatives": 3}])
def test_terms_of_a_glossary_go_through_both(pivoting: Server, options: dict[str, Any]) -> None:
    texts = ["I have a cat and a dog.", "The black cat sleeps.", "A cat, a black cat and a cat at https://cat.org"]
    answer = pivoting.translated(texts, "en", "it", glossary=GLOSSARY, **options)
    one, black, three = answer["translatedText"]
    assert one.count("micio") == black.lower().count("gatto nero") == three.count("gatto nero") == 1
    assert three.lower().count("micio") == 2
    assert three.count("https://cat.org") == 1
    for other in answer.get("alternatives", [[]])[0]:
        assert other.lower().count("micio") == 1
    assert not _STAND_INS.search(str(answer))


def test_terms_have_their_capitals_behind_both(pivoting: Server) -> None:
    texts = ["cat", "Cat", "CAT", "THE CAT SAT ON THE MAT."]
    small, capital, capitals, all_of_it = pivoting.translated(texts, "en", "it", glossary=GLOSSARY)["translatedText"]
    assert ("micio" in small, "Micio" in capital, "MICIO" in capitals, "MICIO" in all_of_it) == (True,) * 4


async def test_terms_in_a_stream_and_in_markup(pivoting: Server) -> None:
    html = '<p>I see a <b>cat</b> and an R.</p><p>I have a <i translate="no">cat</i></p>'
    whole = pivoting.translated(html, "en", "it", glossary=GLOSSARY, format="html")["translatedText"]
    for kept in ("<b>micio</b>", "R&amp;D", '<i translate="no">cat</i></p>'):
        assert whole.count(kept) == 1, whole
    async with httpx.AsyncClient(base_url=pivoting.url, timeout=60.0) as client:
        events = await stream(client, html, source="en", target="it", glossary=GLOSSARY, format="html")
    assert text_of(events) == whole


@pytest.mark.parametrize(("field", "value"), [("alignment", True), ("attention", True)])
def test_what_only_one_model_can_do_is_refused(pivoting: Server, field: str, value: object) -> None:
    refused = pivoting.ask("The cat.", "en", "it", stream=True, **{field: value})
    assert refused.status_code == 400
    assert refused.json()["error"] == f"{field}: is not available from en into it, by way of fr"


def test_a_deadline_covers_both(pivoting: Server) -> None:
    late = pivoting.ask("The cat sat. " * 300, "en", "it", timeout_seconds=0.2)
    assert (late.status_code, late.json()["code"]) == (504, "deadline_exceeded")
    pivoting.wait_for_metric("dragoman_slots_used", 0)


def test_a_reader_that_goes_away_leaves_nothing_behind(pivoting: Server) -> None:
    body = {"q": "The cat sat on the mat. " * 200, "source": "en", "target": "it", "stream": True}
    with httpx.stream("POST", f"{pivoting.url}/translate", json=body) as response:
        next(line for line in response.iter_lines() if line == "event: token")
    pivoting.wait_for_metric("dragoman_requests_running", 0)
    pivoting.wait_for_metric("dragoman_requests_waiting", 0)


async def test_engines_that_die_are_not_noticed(pivoting: Server) -> None:
    """The engines die in the middle of a text, when both have work, and each goes on where it was."""
    text = "".join(f"The cat number {number} sat on the mat. " for number in range(30))
    expected = pivoting.translated(text, "en", "it")["translatedText"]
    body = {"q": text, "source": "en", "target": "it", "stream": True}
    events: list[Event] = []
    async with (
        httpx.AsyncClient(timeout=60.0) as client,
        client.stream("POST", f"{pivoting.url}/translate", json=body) as response,
    ):
        async for event in read_events(response):
            events.append(event)
            if len(events) == 2:
                for pid in pivoting.engine_pids():
                    os.kill(pid, signal.SIGKILL)
    assert events[-1].name == "done"
    assert text_of(events) == expected
    for model in ("en-fr", "fr-it"):
        assert pivoting.metric("dragoman_engine_restarts_total", f'model="{model}"') == 1
