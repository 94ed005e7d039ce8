"""The promises that a client sees, against a real server with the embedded model."""

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.system.conftest import COMPILES, Server
from tests.system.sentences import LONG_TEXT, SENTENCES
from tests.system.sse import REQUEST, Event, read_events, stream, text_of


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=server.url, timeout=60, limits=limits) as client:
        yield client


async def _translate(client: httpx.AsyncClient, q: str | list[str], **options: object) -> str | list[str]:
    response = await client.post("/translate", json={"q": q, "source": "en", "target": "fr", **options})
    assert response.status_code == 200, response.text
    translated: str | list[str] = response.json()["translatedText"]
    return translated


async def test_a_sentence(client: httpx.AsyncClient) -> None:
    assert await _translate(client, "I am a cat.") == "Je suis un chat."


async def test_a_text_keeps_its_form(client: httpx.AsyncClient) -> None:
    text = "  - I am a cat.\n\n\t1. I am a cat.   \r\nI AM A CAT.\n-\n"
    translated = "  - Je suis un chat.\n\n\t1. Je suis un chat.   \r\nJE SUIS UN CHAT.\n-\n"
    assert await _translate(client, text) == translated
    assert text_of(await stream(client, text)) == translated


async def test_no_sentence_is_too_long(client: httpx.AsyncClient) -> None:
    """Its parts are translated, or copied."""
    endless = "the cat sat on the mat, " * 300
    events = await stream(client, f"{endless} {'x' * 9000} I am a cat.")
    segments = [event.data for event in events if event.name == "segment"]
    assert segments[-1]["text"] == "Je suis un chat."
    assert [segment["finish_reason"] for segment in segments].count("copied") == 1
    assert len(segments) > 20
    assert text_of(events).count("chat") > 290


async def test_a_stream_is_appended_token_by_token(client: httpx.AsyncClient) -> None:
    events = await stream(client, "I am a cat. The cat is black.")
    assert [event.id for event in events] == list(range(len(events)))
    names = [event.name for event in events]
    assert names[0] == "start"
    assert names.count("segment") == 2
    assert names[-1] == "done"
    assert not {"done", "error"} & set(names[:-1])
    assert events[-1].data["usage"]["segments"] == 2
    done = events[-1].data
    assert text_of(events) == done["translatedText"] == await _translate(client, "I am a cat. The cat is black.")
    assert "".join(event.data["text"] for event in events if event.name == "segment") == done["translatedText"]
    assert sum(bool(event.data["text"]) for event in events if event.name == "token") > 6
    assert done["usage"]["generated_tokens"] == names.count("token")
    assert 0 < done["timings"]["time_to_first_token_seconds"] <= done["timings"]["total_seconds"]


async def test_headers_of_a_stream(client: httpx.AsyncClient) -> None:
    async with client.stream("POST", "/translate", json={"q": "Yes.", **REQUEST}) as response:
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["x-request-id"]
        await response.aread()


async def test_accept_header_asks_for_a_stream(client: httpx.AsyncClient) -> None:
    body = {"q": "Yes.", "source": "en", "target": "fr"}
    response = await client.post("/translate", json=body, headers={"Accept": "text/event-stream"})
    assert response.headers["content-type"].startswith("text/event-stream")


async def test_white_space_lines_and_emoji_survive(client: httpx.AsyncClient) -> None:
    text = "  I am a cat.\n\n\tI am a cat.  I am a cat.\r\n😀 \n"
    cat = "Je suis un chat."
    translated = await _translate(client, text)
    assert translated == f"  {cat}\n\n\t{cat}  {cat}\r\n😀 \n"
    assert text_of(await stream(client, text)) == translated


async def test_an_array_is_translated_in_one_batch(client: httpx.AsyncClient, server: Server) -> None:
    before = server.metric("dragoman_step_seconds_count"), server.metric("dragoman_generated_tokens_total")
    texts = SENTENCES[:14]
    together = await _translate(client, [*texts, ""])
    steps = server.metric("dragoman_step_seconds_count") - before[0]
    tokens = server.metric("dragoman_generated_tokens_total") - before[1]
    assert together == [*[await _translate(client, text) for text in texts], ""]
    assert steps < tokens / 4, f"{steps} steps for {tokens} tokens"


async def test_a_stream_of_an_array_keeps_its_shape(client: httpx.AsyncClient) -> None:
    events = await stream(client, ["I am a cat.", "", "Yes. No."])
    done = events[-1].data["translatedText"]
    assert done == await _translate(client, ["I am a cat.", "", "Yes. No."])
    segments = [event.data for event in events if event.name == "segment"]
    assert [segment["text_index"] for segment in segments] == [0, 2, 2]


async def test_a_form_is_as_good_as_json(client: httpx.AsyncClient) -> None:
    response = await client.post("/translate", data={"q": "I am a cat.", "source": "en", "target": "fr"})
    assert response.json() == {"translatedText": "Je suis un chat."}
    response = await client.post("/translate", data={"q": ["I am a cat."] * 2, "source": "en", "target": "fr"})
    assert response.json() == {"translatedText": ["Je suis un chat."] * 2}


async def test_event_source(client: httpx.AsyncClient) -> None:
    params = {"q": "I am a cat.", "source": "en", "target": "fr"}
    async with client.stream("GET", "/translate/stream", params=params) as response:
        events = [event async for event in read_events(response)]
    assert events[-1].data["translatedText"] == text_of(events) == "Je suis un chat."


async def test_last_event_id_resumes_exactly(client: httpx.AsyncClient) -> None:
    def comparable(events: list[Event]) -> list[Event]:
        return [event for event in events if event.name in ("token", "segment")]

    q = " ".join(SENTENCES[:3])
    whole = await stream(client, q)
    for seen in (0, 5, len(whole) - 2, len(whole) - 1, 999):
        params = {"q": q, "source": "en", "target": "fr"}
        headers = {"Last-Event-ID": str(seen)}
        async with client.stream("GET", "/translate/stream", params=params, headers=headers) as response:
            rest = [event async for event in read_events(response)]
        assert [event.id for event in rest] == list(range(min(seen + 1, len(whole) - 1), len(whole)))
        assert rest[-1].name == "done"
        assert [(e.id, e.data["text"]) for e in comparable(rest)] == [
            (e.id, e.data["text"]) for e in comparable(whole[seen + 1 :])
        ]


async def test_sampling_is_repeatable_by_seed(client: httpx.AsyncClient) -> None:
    options = {"temperature": 1.5, "seed": 7}
    first, again, other = await asyncio.gather(
        _translate(client, SENTENCES[0], **options),
        _translate(client, SENTENCES[0], **options),
        _translate(client, SENTENCES[0], temperature=1.5, seed=8),
    )
    assert first == again
    assert first != other


async def test_64_streams_give_what_each_gives_alone(client: httpx.AsyncClient, server: Server) -> None:
    """Every one; where nothing compiles the C++ operators, all but near ties."""
    # Long enough to be running still when the last one comes.
    texts = [" ".join(SENTENCES[start : start + 4]) for start in range(64)]
    alone = [await _translate(client, text) for text in texts]
    together = await asyncio.gather(*(stream(client, text) for text in texts))
    assert [text_of(events) for events in together] == [events[-1].data["translatedText"] for events in together]
    same = sum(text_of(events) == expected for events, expected in zip(together, alone, strict=True))
    assert same >= (len(texts) if COMPILES else 0.95 * len(texts))
    rows_above_8 = server.metric("dragoman_batch_rows_count") - server.metric("dragoman_batch_rows_bucket", 'le="8.0"')
    assert rows_above_8 > 0, "the streams were not batched"


BAD_REQUESTS = [
    ("wrong JSON", b'{"q": "a"', 400, "body: invalid JSON"),
    ("not an object", b'["a"]', 400, "body: "),
    ("missing field", b'{"q": "a", "source": "en"}', 400, "target: field required"),
    ("q is a number", b'{"q": 1, "source": "en", "target": "fr"}', 400, "q: must be a string or an array"),
    ("q holds a number", b'{"q": ["a", 1], "source": "en", "target": "fr"}', 400, "q: must be a string or an array"),
    ("unknown field", b'{"q": "a", "source": "en", "target": "fr", "beams": 4}', 400, "beams: extra"),
    ("bool for number", b'{"q": "a", "source": "en", "target": "fr", "top_k": true}', 400, "top_k: "),
    ("unknown source", b'{"q": "a", "source": "xx", "target": "fr"}', 400, "source: xx is not supported"),
    ("auto, unknown target", b'{"q": "a", "source": "auto", "target": "xx"}', 400, "target: xx is not supported"),
    ("unknown target", b'{"q": "a", "source": "en", "target": "xx"}', 400, "target: xx is not supported"),
    ("invalid UTF-8", b'{"q": "\xff\xfe", "source": "en", "target": "fr"}', 400, "body: invalid JSON: invalid unicode"),
    ("lone surrogate", b'{"q": "\\ud800", "source": "en", "target": "fr"}', 400, "body: invalid JSON"),
    ("100,000 characters", json.dumps({"q": "a cat " * 16_667, "source": "en", "target": "fr"}).encode(), 413, "q: "),
    ("too many texts", json.dumps({"q": ["a"] * 2000, "source": "en", "target": "fr"}).encode(), 413, "q: 2000 texts"),
    ("huge body", b'{"q": "' + b" " * 3_000_000 + b'"}', 413, "body: more than 2000000 bytes"),
    ("top_k too large", b'{"q": "a", "source": "en", "target": "fr", "top_k": 18446744073709551616}', 400, "top_k: "),
    ("top_k of 2^63", b'{"q": "a", "source": "en", "target": "fr", "top_k": 9223372036854775808}', 400, "top_k: "),
    ("no deadline", b'{"q": "a", "source": "en", "target": "fr", "timeout_seconds": 0}', 400, "timeout_seconds: "),
]


@pytest.mark.parametrize(
    ("body", "status", "error"), [case[1:] for case in BAD_REQUESTS], ids=[c[0] for c in BAD_REQUESTS]
)
async def test_bad_input_is_answered_clearly(client: httpx.AsyncClient, body: bytes, status: int, error: str) -> None:
    response = await client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == status
    assert response.json()["error"].startswith(error)
    assert response.json()["code"] == {400: "invalid_request", 413: "too_long"}[status]
    assert await _translate(client, "I am a cat.") == "Je suis un chat."


async def test_a_megabyte_of_wrong_fields_is_not_repeated(client: httpx.AsyncClient) -> None:
    fields = {f"field{i}{'x' * 90}": 1 for i in range(9000)}
    for options in ({"json": fields}, {"data": fields}):
        response = await client.post("/translate", **options)  # type: ignore[arg-type]
        assert response.status_code == 400
        assert len(response.content) < 1000


async def test_other_wrong_requests(client: httpx.AsyncClient) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    cases = [
        (await client.post("/translate", content=b"q=%ff&source=en&target=fr", headers=form), 400, "body: "),
        (await client.post("/translate", content=b"q", headers={"Content-Type": "text/csv"}), 400, "Content-Type: "),
        (await client.get("/translate/stream", params={"q": "a"}), 400, "source: field required"),
        (await client.get("/translate"), 405, "Method Not Allowed"),
        (await client.put("/openapi.json"), 405, "Method Not Allowed"),
        (await client.delete("/web/page.js"), 405, "Method Not Allowed"),
        (await client.post("/"), 405, "Method Not Allowed"),
        (await client.get("/nowhere"), 404, "Not Found"),
        (
            await client.get(
                "/translate/stream",
                params={"q": "a", "source": "en", "target": "fr"},
                headers={"Last-Event-ID": "x"},
            ),
            400,
            "Last-Event-ID: ",
        ),
        (
            await client.get(
                "/translate/stream",
                params={"q": "a", "source": "en", "target": "fr"},
                headers={"Last-Event-ID": "9" * 5000},
            ),
            400,
            "Last-Event-ID: ",
        ),
    ]
    for response, status, error in cases:
        assert (response.status_code, response.json()["error"][: len(error)]) == (status, error)


@pytest.mark.parametrize("text", ["", "   ", "😀🎉", "12.5", "\n", "\u00a0"])
async def test_what_has_no_words_comes_back_as_it_is(client: httpx.AsyncClient, text: str) -> None:
    assert await _translate(client, text) == text
    events = await stream(client, text)
    assert events[-1].data["translatedText"] == text_of(events) == text


async def test_a_client_that_leaves_a_stream_frees_its_slots(client: httpx.AsyncClient, server: Server) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    async with client.stream("POST", "/translate", json={"q": LONG_TEXT, **REQUEST}) as response:
        events = read_events(response)  # kept: dropping it would close the stream
        async for event in events:
            if event.name == "token":
                break
    deadline = time.monotonic() + 10
    while server.sample(left := server.scrape(), "dragoman_requests_total", 'outcome="cancelled"') == cancelled:
        assert time.monotonic() < deadline, "it was not cancelled"
    server.wait_for_metric("dragoman_slots_used", 0)
    steps = server.metric("dragoman_step_seconds_count") - server.sample(left, "dragoman_step_seconds_count")
    assert steps <= 2, "the step that was running, and one whose report was on its way"
    tokens = server.metric("dragoman_generated_tokens_total")
    server.wait_for_metric("dragoman_requests_total", cancelled + 1, 'outcome="cancelled"')
    await asyncio.sleep(0.2)
    assert server.metric("dragoman_generated_tokens_total") == tokens, "it went on translating for nobody"


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error(server: Server) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
        connection.sendall(b'POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"q": ')
    server.wait_for_metric("dragoman_requests_total", cancelled + 1, 'outcome="cancelled"')
    assert "unexpected error" not in server.log.read_text()


async def test_a_client_that_leaves_a_json_request_frees_its_slots(client: httpx.AsyncClient, server: Server) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/translate", json={"q": LONG_TEXT, "source": "en", "target": "fr"}, timeout=0.1)
    server.wait_for_metric("dragoman_requests_total", cancelled + 1, 'outcome="cancelled"')
    server.wait_for_metric("dragoman_slots_used", 0)


async def test_a_deadline_is_kept(client: httpx.AsyncClient, server: Server) -> None:
    body = {"q": LONG_TEXT, "source": "en", "target": "fr", "timeout_seconds": 0.05}
    response = await client.post("/translate", json=body)
    assert (response.status_code, response.json()["code"]) == (504, "deadline_exceeded")
    events = await stream(client, LONG_TEXT, timeout_seconds=0.05)
    assert events[-1].name == "error"
    assert events[-1].data["code"] == "deadline_exceeded"
    server.wait_for_metric("dragoman_slots_used", 0)


async def test_max_new_tokens_is_reported_not_hidden(client: httpx.AsyncClient) -> None:
    events = await stream(client, "I am a cat.", max_new_tokens=2)
    [segment] = [event.data for event in events if event.name == "segment"]
    assert segment["finish_reason"] == "length"
    assert segment["text"] == "Je suis"


async def test_languages_probes_and_documentation(client: httpx.AsyncClient) -> None:
    assert (await client.get("/languages")).json() == [{"code": "en", "name": "English", "targets": ["fr"]}]
    for path in ("/livez", "/readyz", "/health"):
        assert (await client.get(path)).json() == {"status": "ok"}
    assert (await client.get("/docs")).status_code == 200
    openapi = (await client.get("/openapi.json")).json()
    paths = openapi["paths"]
    assert {"/translate", "/translate/stream", "/languages", "/livez", "/readyz", "/metrics"} <= set(paths)
    assert "max_new_tokens" in str(paths["/translate"]["post"]["requestBody"])
    for reference in re.findall(r"#/components/schemas/(\w+)", str(openapi)):
        assert reference in openapi["components"]["schemas"]
    assert not any("422" in operation["responses"] for path in paths.values() for operation in path.values())


async def test_the_page_loads_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    page = await client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert "web/page.js" in links
    for link in links:
        if link != "data:,":
            assert (await client.get(link)).status_code == 200, link


async def test_request_id_is_kept_or_made(client: httpx.AsyncClient) -> None:
    given = await client.get("/languages", headers={"X-Request-ID": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    made = await client.get("/languages", headers={"X-Request-ID": "not one id"})
    assert len(made.headers["x-request-id"]) == 16


async def test_logs_are_json_and_hold_no_text(client: httpx.AsyncClient, server: Server) -> None:
    await _translate(client, "The secret word is xylophone.", seed=1)
    await asyncio.sleep(0.1)
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    requests = [line for line in lines if line["message"] == "request"]
    assert {"time", "level", "request_id", "route", "status", "outcome", "seconds"} <= set(requests[-1])
    assert "xylophone" not in server.log.read_text()


async def test_html_keeps_its_tags_which_follow_their_words(client: httpx.AsyncClient) -> None:
    """Streamed as a whole, and by beams too."""
    html = (
        '<h1 class="a">I am a cat.</h1>\n<p>The <b>black</b> cat sleeps. <!-- c --><a href="x?a=1&amp;b=2">I am a cat.'
        '</a>\n<img src="c.png" alt="I am a cat."></p><pre>The black cat</pre><script>if (a < b) "cat"</script>'
    )
    translated = await _translate(client, html, format="html")
    assert isinstance(translated, str)
    assert translated.startswith('<h1 class="a">Je suis un chat.</h1>\n<p>')
    assert "chat <b>noir</b>" in translated
    assert '<!-- c --><a href="x?a=1&amp;b=2">Je suis un chat.</a>' in translated
    assert translated.endswith('</p><pre>The black cat</pre><script>if (a < b) "cat"</script>')
    assert text_of(await stream(client, html, format="html")) == translated
    answer = await client.post(
        "/translate", json={"q": html, "source": "en", "target": "fr", "format": "html", "alternatives": 2}
    )
    for text in (answer.json()["translatedText"], *answer.json()["alternatives"]):
        assert sorted(re.findall("<[^>]*>", text)) == sorted(re.findall("<[^>]*>", translated))
        assert re.search("<b>[^<]*noir[^<]*</b>", text)


async def test_html_has_no_alignment(client: httpx.AsyncClient) -> None:
    body = {"q": "a", "source": "en", "target": "fr", "format": "html", "stream": True, "alignment": True}
    response = await client.post("/translate", json=body)
    assert (response.status_code, response.json()["error"][:10]) == (400, "alignment:")


async def test_a_language_is_detected_as_libretranslate_does(client: httpx.AsyncClient) -> None:
    english = "Where is the station? I have lost my key."
    body = {"q": english, "source": "auto", "target": "fr"}
    one = (await client.post("/translate", json=body)).json()
    assert one.keys() == {"translatedText", "detectedLanguage"}
    assert one["detectedLanguage"]["language"] == "en"
    assert 50 < one["detectedLanguage"]["confidence"] <= 100
    assert one["translatedText"] == await _translate(client, english)
    several = (await client.post("/translate", json=body | {"q": [english, "12"]})).json()
    assert several["detectedLanguage"] == [one["detectedLanguage"], {"language": "en", "confidence": 0}]
    events = await stream(client, english, source="auto")
    assert events[0].data["detectedLanguage"] == events[-1].data["detectedLanguage"] == one["detectedLanguage"]
    assert events[0].data["source"] == "en"
    for options in ({"json": {"q": english}}, {"data": {"q": english}}):
        assert (await client.post("/detect", **options)).json() == [one["detectedLanguage"]]  # type: ignore[arg-type]
    assert (await client.post("/detect", json={})).json()["error"] == "q: field required"
