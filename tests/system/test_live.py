"""Live translation over a WebSocket and server-sent events, and its bad inputs."""

import asyncio
import json
import os
import signal
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.system.answers import translate
from tests.system.conftest import Server, shared_server
from tests.system.live import LANGUAGES, committed, finished, opened, rest, say, until
from tests.system.sentences import SENTENCES
from tests.system.sse import read_events

UNNUMBERED = ("start", "draft", "error")
TEXT = "The old man who lives next door has many books. He reads one of them every day."

# Tests may kill its engine; the last one ends it.
expendable = shared_server()
# It soon ends sessions without a word or a connection.
impatient = shared_server(
    constants={
        "service.live.sessions.IDLE_SECONDS": 2.0,
        "service.live.sessions.LEFT_SECONDS": 0.2,
        "service.live.sessions._LOOK_SECONDS": 0.1,
    }
)


async def test_words_are_committed_while_the_text_grows(server: Server, client: httpx.AsyncClient) -> None:
    events = []
    async with opened(server.url, **LANGUAGES, revise=True) as socket:
        for word in TEXT.split():
            await say(socket, append=word + " ")
            await asyncio.sleep(0.03)
        await say(socket, end=True)
        events = await rest(socket)
    assert [event["event"] for event in events if event["event"] in ("start", "segment", "revision", "done")] == [
        "start",
        *["segment", "revision"] * 2,
        "done",
    ]
    assert committed(events) == finished(events)
    assert sum(event["event"] == "commit" for event in events) > 4
    assert [event["id"] for event in events if "id" in event] == list(range(1, events[-1]["id"] + 1))
    revisions = "".join(event["text"] for event in events if event["event"] == "revision")
    assert revisions.strip() == await translate(client, TEXT, beam_size=4)


@pytest.mark.parametrize(
    "policy", [{"policy": "local_agreement"}, {"policy": "wait_k", "words": 2}, {"latency": "low"}]
)
async def test_policies(server: Server, policy: dict[str, Any]) -> None:
    async with opened(server.url, **LANGUAGES, **policy) as socket:
        for word in TEXT.split():
            await say(socket, append=word + " ")
            await asyncio.sleep(0.02)
        events = await until(socket, "segment", segment=1)
    assert sum(event["event"] == "commit" for event in events) > 2  # more than the ends of sentences


async def test_whole_sentences_are_what_translate_gives(server: Server, client: httpx.AsyncClient) -> None:
    """Numbers, addresses and markup as well: only the cutting is another one."""
    texts = [*SENTENCES[:20], "Write to me@example.org before 3,500 people do.", "He has **12** cats."]
    async with opened(server.url, **LANGUAGES, policy="sentence") as socket:
        await say(socket, append=" ".join(texts), end=True)
        events = await rest(socket)
    assert committed(events) == await translate(client, " ".join(texts))


async def test_a_glossary(server: Server) -> None:
    async with opened(server.url, **LANGUAGES, glossary={"books": "bouquins"}) as socket:
        for word in TEXT.split():
            await say(socket, append=word + " ")
            await asyncio.sleep(0.02)
        await say(socket, end=True)
        assert "beaucoup de bouquins" in committed(await rest(socket))


async def test_the_same_over_server_sent_events(server: Server, client: httpx.AsyncClient) -> None:
    body = {**LANGUAGES, "append": "The cat "}
    async with client.stream("POST", "/translate/live", json=body) as response:
        events = read_events(response, UNNUMBERED)
        session = (await anext(events)).data["session"]
        for word in ("is", "black", "and", "sleeps"):
            answer = await client.post(f"/translate/live/{session}", json={"append": word + " "})
        assert answer.json() == {"source_end": len("The cat is black and sleeps ")}
        await client.post(f"/translate/live/{session}", json={"end": True})
        received = [event async for event in events]
    text = "".join(event.data["text"] for event in received if event.name == "commit")
    assert text.startswith("Le chat est noir")
    assert received[-1].name == "done"


async def test_a_lost_connection_goes_on(server: Server, client: httpx.AsyncClient) -> None:
    async with opened(server.url, **LANGUAGES, latency="low") as socket:
        await say(socket, append="The old man who lives next door has many ")
        events = await until(socket, "commit")
        session, known = events[0]["session"], events[-1]["id"]
        socket.transport.abort()
    headers = {"Last-Event-ID": str(known)}
    body = {"session": session, "append": "books.", "end": True}
    async with client.stream("POST", "/translate/live", json=body, headers=headers) as response:
        received = [event async for event in read_events(response, UNNUMBERED)]
    fresh = "".join(event.data["text"] for event in received if event.name == "commit")
    [segment] = (event.data for event in received if event.name == "segment")
    assert segment["text"] == committed(events) + fresh


async def test_another_server_goes_on_with_what_is_committed(server: Server) -> None:
    start = {"source_start": 500, "segment": 9, "index": 480, "committed": "Le vieil homme"}
    async with opened(server.url, **LANGUAGES, **start, append="The old man sleeps well.", end=True) as socket:
        events = await rest(socket)
    first = next(event for event in events if event["event"] == "commit")
    assert first["index"] == 480 + len("Le vieil homme")
    assert events[-2]["text"] == "Le vieil homme" + committed(events) == "Le vieil homme dort bien."
    assert events[-1] | {"id": 0} == {
        "event": "done", "id": 0, "segments": 10, "source_end": 524, "index": 480 + len(events[-2]["text"])
    }  # fmt: skip


async def test_a_correction_of_committed_source(server: Server) -> None:
    async with opened(server.url, **LANGUAGES, latency="low") as socket:
        await say(socket, append="The old man who lives next door has many ")
        before = await until(socket, "commit")
        await say(socket, replace_from=4, text="young woman who lives next door has many books.", end=True)
        events = await rest(socket)
    [kept] = (event for event in events if event["event"] == "kept")
    assert kept["replace_from"] == 4 < kept["source_end"]
    assert finished(events).startswith(committed(before))


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("nonsense", "message: invalid JSON"),
        ('"text"', "message: "),
        ('{"apend": "x"}', "apend: no such field; did you mean append?"),
        ('{"append": 5}', "append: "),
        ('{"replace_from": 99, "text": "x"}', "replace_from: must be from 0"),
        ('{"final": 99}', "final: the source has 4 characters"),
        ('{"append": "x", "at": 3}', "at: the source has 4 characters"),
        (json.dumps({"append": "x" * 20_001}), "append: "),
    ],
)
async def test_wrong_messages_are_answered_and_change_nothing(server: Server, message: str, problem: str) -> None:
    async with opened(server.url, **LANGUAGES, append="Yes.") as socket:
        await until(socket, "start")
        await socket.send(message)
        error = json.loads(await socket.recv())
        while error["event"] == "draft":
            error = json.loads(await socket.recv())
        assert error["event"] == "error"
        assert error["error"].startswith(problem)
        await say(socket, end=True)
        assert (await rest(socket))[-1]["source_end"] == 4


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ({"target": "fr"}, "source: is missing"),
        ({"source": "auto", "target": "fr"}, "source: must be a language"),
        ({"source": "fr", "target": "fr"}, "target: is the language of the source"),
        ({"source": "xx", "target": "fr"}, "source: xx is not supported"),
        ({**LANGUAGES, "latency": "none"}, "latency: "),
        ({**LANGUAGES, "words": 3}, "words: needs a policy"),
        ({**LANGUAGES, "policy": "local_agreement", "words": 9}, "words: must be from 2 to 4"),
        ({**LANGUAGES, "glossary_id": "none"}, "glossary_id: "),
        ({**LANGUAGES, "alias": "too short"}, "alias: "),
        ({"session": "none"}, "session: no such live session"),
    ],
)
async def test_wrong_first_messages_end_the_connection(server: Server, first: dict[str, Any], problem: str) -> None:
    async with opened(server.url, **first) as socket:
        [error] = await rest(socket)
    assert error["error"].startswith(problem)
    assert socket.close_code == 1008


async def test_a_frame_that_is_too_large(server: Server) -> None:
    async with opened(server.url, **LANGUAGES) as socket:
        await until(socket, "start")
        await say(socket, append="x" * 1_100_000)
        await rest(socket)
    assert socket.close_code == 1009


async def test_other_pages_may_not_connect(server: Server) -> None:
    address = server.url.replace("http", "ws", 1) + "/translate/live"
    async with connect(address, proxy=None, origin=server.url):  # type: ignore[arg-type]  # a NewType of str
        pass
    with pytest.raises(InvalidStatus):
        async with connect(address, proxy=None, origin="https://evil.example"):  # type: ignore[arg-type]
            pass


async def test_a_thousand_changes_a_second(server: Server) -> None:
    before = server.metric("dragoman_live_update_seconds_count")
    async with opened(server.url, **LANGUAGES) as socket:
        for number in range(1000):
            await say(socket, append=f"word{number} " if number % 12 else ". ")
        await say(socket, end=True)
        events = await rest(socket)
    assert committed(events) == finished(events)
    assert events[-1]["event"] == "done"
    assert server.metric("dragoman_live_update_seconds_count") - before < 600


async def test_two_writers_and_two_readers(server: Server, client: httpx.AsyncClient) -> None:
    async with opened(server.url, **LANGUAGES) as socket:
        session = (await until(socket, "start"))[0]["session"]
        await client.post(f"/translate/live/{session}", json={"append": "The cat ", "at": 0})
        refused = await client.post(f"/translate/live/{session}", json={"append": "dog ", "at": 0})
        assert refused.status_code == 400
        assert refused.json()["error"].startswith("at: the source has 8 characters")
        async with opened(server.url, session=session) as second:
            await until(second, "start")
            left = await rest(socket)
            assert left[-1]["error"] == "another connection has taken the session over"
            await say(second, append="sleeps.", end=True)
            assert finished(await rest(second)) == "Le chat dort."
    assert (await client.post("/translate/live/none", json={"append": "x"})).status_code == 404


async def test_followers_read_a_session_by_its_id_or_alias(server: Server, client: httpx.AsyncClient) -> None:
    """Without taking it over, from its beginning; the next session of the alias is told by an error."""
    alias = "an-alias-of-ours"
    assert (await client.get(f"/translate/live/{alias}")).status_code == 404
    async with opened(server.url, **LANGUAGES, alias=alias, append="The cat sleeps. The ") as socket:
        session = (await until(socket, "segment"))[0]["session"]
        for name in (session, alias):
            async with client.stream("GET", f"/translate/live/{name}", headers={"Last-Event-ID": "99"}) as response:
                events = read_events(response, UNNUMBERED)
                assert (await anext(events)).data == {}  # no id: who follows an alias learns no other name
                assert (await anext(events)).data["index"] == 0
        async with client.stream("GET", f"/translate/live/{alias}") as response:
            events = read_events(response, UNNUMBERED)
            while (await anext(events)).name != "segment":
                pass
            async with opened(server.url, **LANGUAGES, alias=alias) as second:
                await until(second, "start")
                rest_of_first = [event async for event in events]
                assert (rest_of_first[-1].name, rest_of_first[-1].data["code"]) == ("error", "not_ready")
                await say(socket, append="dog sleeps. ", end=True)
                assert finished(await rest(socket)) == "Le chien dort. "  # its own reader has it still
                assert (await client.get(f"/translate/live/{session}")).status_code == 404
                async with client.stream("GET", f"/translate/live/{alias}") as third:
                    await say(second, append="Yes.", end=True)
                    names = [event.name async for event in read_events(third, UNNUMBERED)]
                assert names[-1] == "done"
    assert (await client.get(f"/translate/live/{alias}")).status_code == 404


async def test_an_engine_killed_in_mid_sentence(expendable: Server) -> None:
    words = " ".join(SENTENCES[:6]).split()
    async with opened(expendable.url, **LANGUAGES) as socket:
        for number, word in enumerate(words):
            await say(socket, append=word + " ")
            await asyncio.sleep(0.02)
            if number % 12 == 6:
                os.kill(expendable.wait_for_engine(), signal.SIGKILL)
        await say(socket, end=True)
        events = await rest(socket)
    assert events[-1]["event"] == "done"
    assert committed(events) == finished(events)
    assert "".join(event["source"] for event in events if event["event"] == "segment").split() == words


async def test_a_drain_tells_the_sessions(expendable: Server) -> None:
    async with opened(expendable.url, **LANGUAGES, append="The cat sleeps. The dog ") as socket:
        await until(socket, "segment")
        expendable.process.terminate()
        events = await rest(socket)
    assert events[-1]["code"] == "not_ready"
    assert socket.close_code == 1012


async def test_a_silent_session_ends(impatient: Server) -> None:
    async with opened(impatient.url, **LANGUAGES) as socket:
        events = await rest(socket)
    assert events[-1]["code"] == "deadline_exceeded"


async def test_a_session_without_a_connection_is_forgotten(impatient: Server) -> None:
    impatient.wait_for_metric("dragoman_live_sessions", 0)
    async with opened(impatient.url, **LANGUAGES) as socket:
        await until(socket, "start")
        assert impatient.metric("dragoman_live_sessions") == 1
        socket.transport.abort()
    impatient.wait_for_metric("dragoman_live_sessions", 0)


async def test_right_to_left_letters_are_text_like_any_other(server: Server) -> None:
    async with opened(server.url, **LANGUAGES, append="مرحبا بالعالم", end=True) as socket:
        assert (await rest(socket))[-1]["event"] == "done"
