"""Translations as a client sees them, by a real server with the embedded model."""

import asyncio
import re

import httpx
import pytest

from tests.system.answers import translate
from tests.system.conftest import Server
from tests.system.names import named_sentences
from tests.system.sentences import SENTENCES
from tests.system.sse import read_events, stream, text_of


async def test_a_text_keeps_its_form(client: httpx.AsyncClient) -> None:
    text = "  - I see a cat.\n\n\t1. I see a cat.  I see a cat.\r\nI SEE A CAT.\n-\n😀 \n"
    translated = "  - Je vois un chat.\n\n\t1. Je vois un chat.  Je vois un chat.\r\nJE VOIS UN CHAT.\n-\n😀 \n"
    assert await translate(client, text) == translated
    assert text_of(await stream(client, text)) == translated


async def test_no_sentence_is_too_long(client: httpx.AsyncClient) -> None:
    """The parts of a long sentence are translated or copied."""
    endless = "the cat sat on the mat, " * 300
    events = await stream(client, f"{endless} {'x' * 9000} I see a cat.")
    segments = [event.data for event in events if event.name == "segment"]
    assert segments[-1]["text"] == "Je vois un chat."
    assert [segment["finish_reason"] for segment in segments].count("copied") == 1
    assert len(segments) > 20
    assert text_of(events).count("chat") > 200


async def test_an_array_is_translated_in_one_batch(client: httpx.AsyncClient, server: Server) -> None:
    before = server.metric("dragoman_step_seconds_count"), server.metric("dragoman_generated_tokens_total")
    texts = SENTENCES[:14]
    together = await translate(client, [*texts, ""])
    steps = server.metric("dragoman_step_seconds_count") - before[0]
    tokens = server.metric("dragoman_generated_tokens_total") - before[1]
    assert together == [*[await translate(client, text) for text in texts], ""]
    assert steps < tokens / 4, f"{steps} steps for {tokens} tokens"


@pytest.mark.parametrize(("source", "target"), [("EN", "FR"), ("en-GB", "fr_CA"), ("Auto", "Fr")])
async def test_languages_may_be_written_as_other_services_do(
    client: httpx.AsyncClient, source: str, target: str
) -> None:
    text = "Where is the station?"
    body = {"q": text, "source": source, "target": target}
    expected = await translate(client, text)
    for answer in (
        await client.post("/translate", json=body),
        await client.post("/translate", data=body),
        await client.post("/translate", json=body | {"glossary": {"dog": "chien"}}),
    ):
        assert answer.json()["translatedText"] == expected
    async with client.stream("GET", "/translate/stream", params=body) as response:
        events = [event async for event in read_events(response)]
    assert (events[0].data["source"], events[0].data["target"]) == ("en", "fr")
    assert text_of(events) == expected


async def test_sampling_is_repeatable_by_seed(client: httpx.AsyncClient) -> None:
    options = {"temperature": 1.5, "seed": 7}
    first, again, other = await asyncio.gather(
        translate(client, SENTENCES[0], **options),
        translate(client, SENTENCES[0], **options),
        translate(client, SENTENCES[0], temperature=1.5, seed=8),
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("text", ["", "   ", "😀🎉", "12.5", "\n", "\u00a0"])
async def test_what_has_no_words_comes_back_as_it_is(client: httpx.AsyncClient, text: str) -> None:
    assert await translate(client, text) == text
    events = await stream(client, text)
    assert events[-1].data["translatedText"] == text_of(events) == text


async def test_an_element_without_letters_does_not_fail_the_array(client: httpx.AsyncClient) -> None:
    texts = ["I see a cat.", "12 345", "10 - 12", "- -", "+33 1 23"]
    request = {"q": texts, "source": "auto", "target": "fr"}
    assert (await client.post("/translate", json=request)).json()["translatedText"] == ["Je vois un chat.", *texts[1:]]
    request = {"q": ["<p>10 - 12</p>"], "source": "auto", "target": "fr", "format": "html"}
    assert (await client.post("/translate", json=request)).json()["translatedText"] == ["<p>10 - 12</p>"]
    answer = await client.post("/v2/translate", json={"text": texts, "target_lang": "FR"})
    assert [each["text"] for each in answer.json()["translations"]] == ["Je vois un chat.", *texts[1:]]


async def test_html_keeps_its_tags_which_follow_their_words(client: httpx.AsyncClient) -> None:
    """Streamed as a whole, and by beams too."""
    html = (
        '<h1 class="a">I see a cat.</h1>\n<p>The <b>black</b> cat sleeps. <!-- c -->'
        '<a href="x?a=1&amp;b=2">I see a cat.</a>\n<img src="c.png" alt="I see a cat."></p>'
        '<pre>The black cat</pre><script>if (a < b) "cat"</script>'
    )
    translated = await translate(client, html, format="html")
    assert isinstance(translated, str)
    assert translated.startswith('<h1 class="a">Je vois un chat.</h1>\n<p>')
    assert "chat <b>noir</b>" in translated
    assert '<!-- c --><a href="x?a=1&amp;b=2">Je vois un chat.</a>' in translated
    assert translated.endswith('</p><pre>The black cat</pre><script>if (a < b) "cat"</script>')
    assert text_of(await stream(client, html, format="html")) == translated
    answer = await client.post(
        "/translate", json={"q": html, "source": "en", "target": "fr", "format": "html", "alternatives": 2}
    )
    for text in (answer.json()["translatedText"], *answer.json()["alternatives"]):
        assert sorted(re.findall("<[^>]*>", text)) == sorted(re.findall("<[^>]*>", translated))
        assert re.search("<b>[^<]*noir[^<]*</b>", text)


async def test_a_language_is_detected_as_libretranslate_does(client: httpx.AsyncClient) -> None:
    english = "Where is the station? I have lost my key."
    body = {"q": english, "source": "auto", "target": "fr"}
    one = (await client.post("/translate", json=body)).json()
    assert one.keys() == {"translatedText", "detectedLanguage"}
    assert one["detectedLanguage"]["language"] == "en"
    assert 50 < one["detectedLanguage"]["confidence"] <= 100
    assert one["translatedText"] == await translate(client, english)
    several = (await client.post("/translate", json=body | {"q": [english, "12"]})).json()
    assert several["detectedLanguage"] == [one["detectedLanguage"], {"language": "en", "confidence": 0}]
    events = await stream(client, english, source="auto")
    assert events[0].data["detectedLanguage"] == events[-1].data["detectedLanguage"] == one["detectedLanguage"]
    assert events[0].data["source"] == "en"
    for options in ({"json": {"q": english}}, {"data": {"q": english}}):
        assert (await client.post("/detect", **options)).json() == [one["detectedLanguage"]]  # type: ignore[arg-type]
    assert (await client.post("/detect", json={})).json()["detail"] == "q: field required"


async def test_a_language_that_nothing_translates_is_detected_if_wanted(client: httpx.AsyncClient) -> None:
    german = "Wo ist der Bahnhof? Ich habe meinen Schlüssel verloren."
    [known] = (await client.post("/detect", json={"q": german})).json()
    assert known["confidence"] < 5
    first, *_ = (await client.post("/detect", json={"q": german, "known": False})).json()
    assert first["language"] == "de"
    assert first["confidence"] > 70
    assert (await client.post("/detect", json={"q": "12", "known": False})).json() == []


async def test_segments_say_what_they_translate(client: httpx.AsyncClient) -> None:
    text = "  I see a cat. 😀 Yes!\n\n12\nThe dog sleeps."
    events = await stream(client, text)
    spans = [event.data["source"] for event in events if event.name == "segment"]
    assert [text[start:end] for start, end in spans] == ["I see a cat.", "Yes!", "12", "The dog sleeps."]


async def test_what_is_in_the_target_language_comes_back_as_it_is(client: httpx.AsyncClient) -> None:
    """LibreTranslate does the same; also in arrays beside other texts, in streams and in HTML."""
    french, html = "Où est la gare ?  J'ai perdu ma clé.\n", "<p>Où est <b>la gare</b> ? J&#39;ai perdu ma clé.</p>"
    body = {"q": [french, "I see a cat."], "source": "auto", "target": "fr", "alternatives": 1, "scores": True}
    answer = (await client.post("/translate", json=body)).json()
    assert answer["translatedText"] == [french, "Je vois un chat."]
    assert [each["language"] for each in answer["detectedLanguage"]] == ["fr", "en"]
    assert (answer["alternatives"][0], answer["scores"][0]) == ([], None)
    events = await stream(client, french, source="auto")
    assert (text_of(events), events[-1].data["translatedText"]) == (french, french)
    assert events[-1].data["usage"] == {"segments": 1, "source_tokens": 0, "generated_tokens": 0}
    assert await translate(client, html, source="auto", format="html") == html
    english = {"q": "This is a cat in the house.", "source": "auto", "target": "en"}
    assert (await client.post("/translate", json=english)).json()["translatedText"] == english["q"]
    for source in ("fr", "FR-CA"):
        assert await translate(client, [french, ""], source=source) == [french, ""]


async def test_names_of_forty_languages_come_back_letter_for_letter(client: httpx.AsyncClient) -> None:
    names, sentences = zip(*named_sentences(), strict=True)
    translations = await translate(client, list(sentences))
    lost = [
        (word, found)
        for name, found in zip(names, translations, strict=True)
        for word in name.split()
        if word not in found and not word.isascii()
    ]
    # Names that French could spell are not copied: the model writes them, and most of them right.
    french = set("abcdefghijklmnopqrstuvwxyzàâæçéèêëîïôœùûüÿ'-")
    assert [each for each in lost if not set(each[0].lower()) <= french] == []
    assert len(lost) <= 2


@pytest.mark.parametrize("part", ["C:\\Users\\Ann", "\\cite{knuth}", "★★☆", "12 ‰", "1️⃣", "①", "DP001", "%1$@", ":name"])
async def test_what_the_model_cannot_write_is_copied(client: httpx.AsyncClient, part: str) -> None:
    assert part in await translate(client, f"I see a cat and {part} in the house.")
