"""Translations as streams: events, their order and their ids."""

import asyncio

import httpx

from tests.system.answers import translate
from tests.system.conftest import COMPILES, Server
from tests.system.sentences import SENTENCES
from tests.system.sse import REQUEST, Event, read_events, stream, text_of


async def test_a_stream_is_appended_token_by_token(client: httpx.AsyncClient) -> None:
    events = await stream(client, "I see a cat. The cat is black.")
    assert [event.id for event in events] == list(range(len(events)))
    names = [event.name for event in events]
    assert names[0] == "start"
    assert names.count("segment") == 2
    assert names[-1] == "done"
    assert not {"done", "error"} & set(names[:-1])
    assert events[-1].data["usage"]["segments"] == 2
    done = events[-1].data
    assert text_of(events) == done["translatedText"] == await translate(client, "I see a cat. The cat is black.")
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


async def test_a_stream_of_an_array_keeps_its_shape(client: httpx.AsyncClient) -> None:
    events = await stream(client, ["I see a cat.", "", "Yes. No."])
    done = events[-1].data["translatedText"]
    assert done == await translate(client, ["I see a cat.", "", "Yes. No."])
    segments = [event.data for event in events if event.name == "segment"]
    assert [segment["text_index"] for segment in segments] == [0, 2, 2]


async def test_last_event_id_resumes_exactly(client: httpx.AsyncClient) -> None:
    def comparable(events: list[Event]) -> list[Event]:
        return [event for event in events if event.name in ("token", "segment")]

    q = " ".join(SENTENCES[:3])
    whole = await stream(client, q)
    for seen in (0, 5, len(whole) - 2):
        params = {"q": q, "source": "en", "target": "fr"}
        headers = {"Last-Event-ID": str(seen)}
        async with client.stream("GET", "/translate/stream", params=params, headers=headers) as response:
            rest = [event async for event in read_events(response)]
        assert [event.id for event in rest] == list(range(seen + 1, len(whole)))
        assert rest[-1].name == "done"
        assert [(e.id, e.data["text"]) for e in comparable(rest)] == [
            (e.id, e.data["text"]) for e in comparable(whole[seen + 1 :])
        ]


async def test_after_the_last_event_there_is_nothing_to_resume(client: httpx.AsyncClient) -> None:
    last = len(await stream(client, "I see a cat.")) - 1
    params = {"q": "I see a cat.", "source": "en", "target": "fr"}
    for seen in (last, 999):
        response = await client.get("/translate/stream", params=params, headers={"Last-Event-ID": str(seen)})
        assert (response.status_code, response.content) == (204, b"")
        assert response.headers["x-request-id"]


async def test_64_streams_give_what_each_gives_alone(client: httpx.AsyncClient, server: Server) -> None:
    """Every one; where nothing compiles the C++ operators, all but near ties."""
    # Long enough to be running still when the last one comes.
    texts = [" ".join(SENTENCES[start : start + 4]) for start in range(64)]
    alone = [await translate(client, text) for text in texts]
    together = await asyncio.gather(*(stream(client, text) for text in texts))
    assert [text_of(events) for events in together] == [events[-1].data["translatedText"] for events in together]
    same = sum(text_of(events) == expected for events, expected in zip(together, alone, strict=True))
    assert same >= (len(texts) if COMPILES else 0.95 * len(texts))
    rows_above_8 = server.metric("dragoman_batch_rows_count") - server.metric("dragoman_batch_rows_bucket", 'le="8.0"')
    assert rows_above_8 > 0, "the streams were not batched"


async def test_max_new_tokens_is_reported_not_hidden(client: httpx.AsyncClient) -> None:
    events = await stream(client, "I see a cat.", max_new_tokens=3)
    [segment] = [event.data for event in events if event.name == "segment"]
    assert segment["finish_reason"] == "length"
    assert segment["text"] == "Je vois"
