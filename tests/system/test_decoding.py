"""Beams, alternatives, prefixes, penalties and candidates, as a client sees them."""

import asyncio
import math
import re
from itertools import pairwise
from typing import Any

import httpx
import pytest

from model.case_marks import VISIBLE
from tests.system.conftest import COMPILES, Server
from tests.system.sentences import SENTENCES
from tests.system.sse import REQUEST, read_events, stream, text_of

TEXT = "I see a cat. The old man is waiting for my friends."


async def _answer(client: httpx.AsyncClient, q: str | list[str], **options: object) -> dict[str, Any]:
    response = await client.post("/translate", json={"q": q, "source": "en", "target": "fr", **options})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_alternatives_have_libretranslate_s_shapes(client: httpx.AsyncClient) -> None:
    one = await _answer(client, SENTENCES[1], alternatives=3)
    assert set(one) == {"translatedText", "alternatives"}
    assert len({one["translatedText"], *one["alternatives"]}) == 1 + len(one["alternatives"]) > 2
    several = await _answer(client, [SENTENCES[1], "42", TEXT], alternatives=3)
    assert several["translatedText"][0] == one["translatedText"]
    assert several["alternatives"][:2] == [one["alternatives"], []]
    for text in several["alternatives"][2]:
        assert text.count(".") + text.count("!") > 1, "an alternative is a whole text"
    assert "alternatives" not in await _answer(client, SENTENCES[1])


async def test_scores_come_in_the_shape_of_the_text(client: httpx.AsyncClient) -> None:
    plain = await _answer(client, SENTENCES[1], scores=True)
    assert -5 < plain["scores"] < 0
    assert set(plain) == {"translatedText", "scores"}
    both = await _answer(client, [SENTENCES[1], "42"], scores=True, alternatives=2)
    assert both["scores"][1] is None
    assert [len(each) for each in both["alternativeScores"]] == [len(each) for each in both["alternatives"]]
    assert both["alternativeScores"][0][0] < both["scores"][0]


@pytest.mark.parametrize("beam_size", [2, 4])
async def test_a_beam_streams_what_it_answers(client: httpx.AsyncClient, beam_size: int) -> None:
    events = await stream(client, TEXT, beam_size=beam_size)
    done = events[-1].data
    assert (
        text_of(events)
        == done["translatedText"]
        == (await _answer(client, TEXT, beam_size=beam_size))["translatedText"]
    )
    indices = [(event.data["segment"], event.data["index"]) for event in events if event.name == "token"]
    assert indices == sorted(set(indices))
    assert done["usage"]["generated_tokens"] == len(indices)
    assert all("alternatives" not in event.data for event in events)


async def test_a_stream_sends_the_live_hypotheses_if_requested(client: httpx.AsyncClient) -> None:
    events = await stream(client, TEXT, beam_size=3, hypotheses=True)
    plain = await stream(client, TEXT, beam_size=3)
    others = [event for event in events if event.name != "hypotheses"]
    assert [(event.name, event.data.get("text")) for event in others] == [
        (event.name, event.data.get("text")) for event in plain
    ]
    assert [event.id for event in events] == list(range(len(events)))
    for segment in (each.data for each in events if each.name == "segment"):
        own = [each for each in events if each.data.get("segment") == segment["segment"]]
        steps = [each.data for each in own if each.name == "hypotheses"]
        assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
        assert all(1 <= len(step["hypotheses"]) <= 3 for step in steps)
        for before, step in pairwise(steps):
            texts = tuple(each["text"] for each in before["hypotheses"])
            assert all(each["text"].startswith(texts) for each in step["hypotheses"]), "each has a parent"
        length = sum(each.name == "token" for each in own)
        for step in steps[: length - 1]:
            assert any(segment["text"].startswith(each["text"]) for each in step["hypotheses"]), "it was alive"
    body = {"q": TEXT, **REQUEST, "beam_size": 3, "hypotheses": True}
    async with client.stream("POST", "/translate", json=body, headers={"Last-Event-ID": "7"}) as response:
        again = [event async for event in read_events(response)]
    assert again[:-1] == events[8:-1]


@pytest.mark.parametrize(
    "options", [{"hypotheses": True}, {"hypotheses": True, "beam_size": 1}, {"hypotheses": True, "format": "html"}]
)
async def test_hypotheses_are_a_beam_s(client: httpx.AsyncClient, options: dict[str, object]) -> None:
    request = {"q": TEXT, "source": "en", "target": "fr", "stream": True, "beam_size": 2, **options}
    if options == {"hypotheses": True}:
        request["stream"] = False
    response = await client.post("/translate", json=request)
    assert response.status_code == 400
    assert response.json()["error"].startswith("hypotheses: ")


async def test_a_stream_sends_alternatives_and_candidates(client: httpx.AsyncClient) -> None:
    events = await stream(client, TEXT, alternatives=2, top_candidates=3)
    segments = [event.data for event in events if event.name == "segment"]
    for segment in segments:
        assert segment["alternatives"]
        assert all(each["score"] < 0 and each["text"] for each in segment["alternatives"])
    first, second = (segment["alternatives"] for segment in segments)
    pairs = zip(first, second, strict=False)
    combined = [one["text"] + other["text"] for one, other in pairs]
    assert events[-1].data["alternatives"][: len(combined)] == combined
    for event in events:
        if event.name == "token":
            ranked = [each["logprob"] for each in event.data["candidates"]]
            assert len(ranked) == 3
            assert ranked == sorted(ranked, reverse=True)
            assert sum(map(math.exp, ranked)) <= 1.0001
    greedy = [event.data for event in await stream(client, TEXT, top_candidates=1) if event.name == "token"]
    for data in greedy:
        [best] = data["candidates"]
        assert best["logprob"] == pytest.approx(data["logprob"], abs=1e-4)
        assert best["text"] in VISIBLE.values() or best["text"].strip() in data["text"].lower()


@pytest.mark.parametrize("beam_size", [1, 4])
async def test_a_stream_sends_where_each_token_comes_from(client: httpx.AsyncClient, beam_size: int) -> None:
    """Names and numbers stay as they are: both sides of a pair are known. And the second sentence counts on."""
    text = "  Sarah met Daniel in 1987.\nThe old dog likes Canada."
    found = []
    for event in await stream(client, text, alignment=True, beam_size=beam_size):
        if event.name == "token" and event.data["alignment"]:
            place = event.data["alignment"]
            assert 0 < place["weight"] <= 1
            found.append((event.data["text"].strip(), text[place["start"] : place["end"]]))
    assert all(piece == piece.strip() != "" for _, piece in found)
    pairs = dict(found)
    assert pairs["chien"] == "dog"
    assert pairs["vieux"] == "old"
    plain = await stream(client, text)
    assert all("alignment" not in event.data for event in plain)


@pytest.mark.parametrize("beam_size", [1, 4])
async def test_a_stream_sends_all_attention(client: httpx.AsyncClient, beam_size: int) -> None:
    """The strongest place is the alignment's; a sentence's first token tells which characters the weights belong to."""
    text = "42\n  The old dog likes Canada. I see a cat."
    events = await stream(client, text, attention=True, beam_size=beam_size)
    spans = {event.data["segment"]: event.data["source_tokens"] for event in events if "source_tokens" in event.data}
    assert spans.keys() == {1, 2}
    # A case mark has the place of its word.
    words = "".join(text[start:end] for start, end in dict.fromkeys(tuple(each) for each in spans[1] if each))
    assert words == "TheolddoglikesCanada."
    tokens = [event.data for event in events if event.name == "token" and event.data["logprob"] is not None]
    assert {data["segment"] for data in tokens} == {1, 2}
    for data in tokens:
        weights, own = data["attention"], spans[data["segment"]]
        assert len(weights) == len(own)
        assert sum(weights) == pytest.approx(1, abs=0.01)
        strongest = max(range(len(own) - 1), key=weights.__getitem__)
        if data["alignment"]:
            assert own[strongest] == [data["alignment"]["start"], data["alignment"]["end"]]
            assert weights[strongest] == pytest.approx(data["alignment"]["weight"], abs=1e-4)
    assert not any("source_tokens" in event.data for event in await stream(client, text, alignment=True))


@pytest.mark.parametrize(
    "options",
    [{}, {"beam_size": 4}, {"temperature": 0.7, "seed": 3}, {"target_prefix": "Le vieux"}, {"format": "html"}],
)
async def test_a_stream_sends_the_self_attention(client: httpx.AsyncClient, options: dict[str, object]) -> None:
    """Each layer's weights cover the start and all tokens before."""
    text = "The old dog likes Canada."
    events = await stream(client, text, self_attention=True, **options)
    tokens = [event.data for event in events if event.name == "token"]
    assert len(tokens) > 4
    for index, data in enumerate(tokens):
        first, second = data["self_attention"]
        assert len(first) == len(second) == index + 1
        assert sum(first) == pytest.approx(1, abs=0.01)
        assert sum(second) == pytest.approx(1, abs=0.01)
        assert not {"alignment", "attention"} & data.keys()
    assert tokens[0]["self_attention"] == [[1.0], [1.0]]
    assert tokens[-1]["self_attention"][0] != tokens[-1]["self_attention"][1]
    plain = await stream(client, text, attention=options.get("format") != "html", **options)
    assert not any("self_attention" in event.data for event in plain)


@pytest.mark.parametrize("options", [{}, {"beam_size": 4}, {"temperature": 0.7, "seed": 3}])
async def test_a_target_prefix_begins_the_translation(client: httpx.AsyncClient, options: dict[str, object]) -> None:
    prefix = "Le vieil homme qui"
    text = "  The old man is waiting for the house near the river.\n"
    plain = (await _answer(client, text, **options))["translatedText"]
    assert not plain.startswith(f"  {prefix}")
    answer = (await _answer(client, text, target_prefix=prefix, **options))["translatedText"]
    assert answer.startswith(f"  {prefix} ")
    assert len(answer) > len(prefix) + 10
    events = await stream(client, text, target_prefix=prefix, **options)
    assert text_of(events) == answer
    assert "".join(event.data["text"] for event in events if event.name == "token").startswith(f"  {prefix}")


async def test_the_start_of_a_translation_as_prefix_changes_nothing(client: httpx.AsyncClient) -> None:
    whole = (await _answer(client, SENTENCES[5]))["translatedText"]
    words = whole.split(" ")
    for count in range(1, len(words)):
        prefix = " ".join(words[:count])
        assert (await _answer(client, SENTENCES[5], target_prefix=prefix))["translatedText"] == whole


async def test_no_ngram_comes_twice(client: httpx.AsyncClient) -> None:
    text = "No, no, no, no, no, no, no, no, no, no."
    plain = (await _answer(client, text))["translatedText"].lower()
    assert plain.count("non") > 3
    for beam_size in (1, 3):
        strict = (await _answer(client, text, no_repeat_ngram_size=2, beam_size=beam_size))["translatedText"].lower()
        pairs = list(pairwise(re.findall(r"\w+|[^\w\s]+", strict)))
        assert len({*pairs}) == len(pairs)
    penalised = (await _answer(client, text, repetition_penalty=3.0))["translatedText"].lower()
    assert penalised.count("non") < plain.count("non")


async def test_beams_beside_streams_give_what_each_gives_alone(client: httpx.AsyncClient, server: Server) -> None:
    """More hypotheses than slots: some wait. Where nothing compiles the C++ operators, all but near ties."""
    options: list[dict[str, object]] = [
        {},
        {"beam_size": 4},
        {"beam_size": 7, "alternatives": 2},
        {"temperature": 1.0, "seed": 5},
    ]
    texts = SENTENCES[:40]
    alone = [await _answer(client, text, **options[i % 4]) for i, text in enumerate(texts)]
    together = await asyncio.gather(*(_answer(client, text, **options[i % 4]) for i, text in enumerate(texts)))
    same = sum(one == other for one, other in zip(alone, together, strict=True))
    assert same >= (len(texts) if COMPILES else 38)
    server.wait_for_metric("dragoman_slots_used", 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("top_candidates", 3), ("alignment", True), ("attention", True), ("self_attention", True)],
)
async def test_what_only_a_stream_sends_is_refused_without_one(
    client: httpx.AsyncClient, field: str, value: int
) -> None:
    body: dict[str, str | int] = {"q": "Yes.", "source": "en", "target": "fr", field: value}
    refused = await client.post("/translate", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"] == f"{field}: is sent in the events of a stream: set stream"
    accepted = await client.post("/translate", json=body, headers={"Accept": "text/event-stream"})
    assert accepted.status_code == 200
    accepted = await client.get("/translate/stream", params=body)
    assert accepted.status_code == 200


BAD = [
    ({"beam_size": 0}, "beam_size: "),
    ({"beam_size": 17}, "beam_size: "),
    ({"alternatives": 16}, "alternatives: "),
    ({"alternatives": -1}, "alternatives: "),
    ({"alternatives": 4, "beam_size": 4}, "beam_size: must be at least 5"),
    ({"beam_size": 2, "temperature": 0.5}, "temperature: must be 0 with beam_size above 1"),
    ({"alternatives": 1, "temperature": 0.5}, "temperature: must be 0 with alternatives"),
    ({"length_penalty": -1}, "length_penalty: "),
    ({"repetition_penalty": 0.01}, "repetition_penalty: "),
    ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size: "),
    ({"top_candidates": 21}, "top_candidates: "),
    ({"alignment": True, "format": "html", "stream": True}, "alignment:"),
    ({"target_prefix": "mot " * 500}, "target_prefix: "),
    ({"target_prefix": "Je suis", "max_new_tokens": 2}, "target_prefix: "),
    ({"target_prefix": "Je", "q": TEXT}, "target_prefix: needs a text of one sentence, there are more"),
    ({"target_prefix": "Je", "q": ["I am.", "I am."]}, "target_prefix: needs a text of one sentence, there are more"),
    ({"target_prefix": "Je", "q": "42"}, "target_prefix: needs a text of one sentence, there is none"),
]


@pytest.mark.parametrize(("options", "error"), BAD, ids=[str(options)[:40] for options, _ in BAD])
async def test_bad_options_name_their_field(client: httpx.AsyncClient, options: dict[str, object], error: str) -> None:
    for stream_it in (False, True):
        body = {"q": "I see a cat.", "source": "en", "target": "fr", "stream": stream_it, **options}
        response = await client.post("/translate", json=body)
        assert response.status_code == 400
        assert response.json()["error"].startswith(error)


@pytest.mark.parametrize("options", [{}, {"alternatives": 3}, {"temperature": 0.7, "seed": 3}])
async def test_what_is_no_language_survives(client: httpx.AsyncClient, options: dict[str, object]) -> None:
    copied = ["{name}", "https://example.org/a?b=1&c=2", "anna.berg@example.org", "%(count)d", "🎂🎉"]
    texts = [f"The old dog likes {each} very much." for each in copied]
    answer = await _answer(client, texts, **options)
    alternatives = answer.get("alternatives", [[]] * len(texts))
    for each, text, others in zip(copied, answer["translatedText"], alternatives, strict=True):
        assert [version.count(each) for version in (text, *others)] == [1] * (1 + len(others))
        assert "chien" in text or options
    events = await stream(client, texts, **options)
    assert events[-1].data["translatedText"] == answer["translatedText"]
    assert text_of(events) == "".join(answer["translatedText"])
