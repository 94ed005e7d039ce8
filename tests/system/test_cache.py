"""Servers with a cache of finished sentences answer as others do, only sooner."""

import asyncio
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.access.key_store import KeyLimits, KeyStore
from service.settings import EMBEDDED_MODEL
from tests.system.conftest import COMPILES, Server, StartServer, run_server, shared_server
from tests.system.models import relabel_embedded_model
from tests.system.sentences import LONG_TEXT, SENTENCES
from tests.system.sse import REQUEST, Event, read_events, stream, text_of

KINDS: list[dict[str, Any]] = [
    {},
    {"beam_size": 4, "alternatives": 2, "length_penalty": 0.5},
    {"temperature": 0.8, "top_p": 0.9, "seed": 3},
    {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2},
    {"target_prefix": "Le"},
    {"max_new_tokens": 3},
    {"glossary": {"man": "bonhomme"}},
    {"format": "html"},
]
TEXT = {"html": "<p>The <b>old man</b> is waiting for <i>my friends</i>.</p>"}
PLAIN = "The old man is waiting for my friends."


# Few slots, so that a long text is work for a while.
cached = shared_server("--cache-mb", "8", "--slots", "16")


def _repeatable(events: list[Event]) -> list[Event]:
    """Return the events without what tells one request from another, and without times."""
    assert events[-1].name == "done"
    volatile = ("id", "timings")
    return [event._replace(data={k: v for k, v in event.data.items() if k not in volatile}) for event in events]


def _text(options: dict[str, Any]) -> str:
    return TEXT.get(options.get("format", ""), PLAIN)


def _counts(server: Server) -> dict[str, float]:
    exposition = server.scrape()
    names = {kind: f"dragoman_cache_{kind}_total" for kind in ("hits", "joined", "misses", "evictions")}
    names |= {"bytes": "dragoman_cache_bytes", "generated": "dragoman_generated_tokens_total"}
    return {kind: server.sample(exposition, name) for kind, name in names.items()}


@pytest.mark.skipif(not COMPILES, reason="other operators round differently in other batches")
@pytest.mark.parametrize("options", KINDS, ids=lambda options: "-".join(options) or "greedy")
async def test_every_event_is_the_same(cached: Server, server: Server, options: dict[str, Any]) -> None:
    """All texts, log-probabilities and ids, decoded and replayed; also the rest of a stream that is resumed."""
    text = _text(options)
    async with server.client() as plain, cached.client() as client:
        expected = _repeatable(await stream(plain, text, **options))
        assert _repeatable(await stream(client, text, **options)) == expected
        before = _counts(cached)
        assert _repeatable(await stream(client, text, **options)) == expected
        headers = {"Last-Event-ID": "1"}
        body = {"q": text, **REQUEST, **options}
        async with client.stream("POST", "/translate", json=body, headers=headers) as response:
            assert _repeatable([event async for event in read_events(response)]) == expected[2:]
        after = _counts(cached)
    # A glossary's term is placed by further requests.
    assert after["hits"] - before["hits"] == (2 if "glossary" not in options else 6)
    assert after["generated"] == before["generated"], "an engine has worked"


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0.8}, {"top_candidates": 2}, {"alignment": True}, {"self_attention": True}],
    ids=lambda options: next(iter(options)),
)
async def test_what_is_not_kept_is_decoded_again(cached: Server, options: dict[str, Any]) -> None:
    """Samples whose seed nobody gave, and what is inspected."""
    async with cached.client() as client:
        before = _counts(cached)
        first = _repeatable(await stream(client, PLAIN, **options))
        between = _counts(cached)
        assert _repeatable(await stream(client, PLAIN, **options)) == first
        after = _counts(cached)
    assert after["generated"] - between["generated"] == between["generated"] - before["generated"] > 0
    assert {**after, "generated": 0} == {**before, "generated": 0}


async def test_many_clients_with_the_same_page_share_one_decode(cached: Server, server: Server) -> None:
    page = " ".join(SENTENCES[40:70])
    async with server.client() as plain, cached.client() as client:
        expected = _repeatable(await stream(plain, page))
        before = _counts(cached)
        pages = await asyncio.gather(*(stream(client, page) for _ in range(32)))
        after = _counts(cached)
    if COMPILES:
        assert all(_repeatable(each) == expected for each in pages)
    assert len({text_of(each) for each in pages}) == 1
    assert after["misses"] - before["misses"] == 30
    assert after["hits"] + after["joined"] - before["hits"] - before["joined"] == 31 * 30


async def test_both_models_of_a_pivot_are_spared(start_server: StartServer, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "en-fr").symlink_to(EMBEDDED_MODEL)
    relabel_embedded_model(tmp_path / "models" / "fr-it", "fr-it")
    with start_server("--models", str(tmp_path / "models"), "--cache-mb", "8") as server:
        async with server.client() as client:
            first = _repeatable(await stream(client, PLAIN, target="it", temperature=0.5))
            assert _counts(server)["misses"] == 1, "only the second model samples"
            greedy = _repeatable(await stream(client, PLAIN, target="it"))
            before = _counts(server)
            assert _repeatable(await stream(client, PLAIN, target="it")) == greedy
            assert _repeatable(await stream(client, PLAIN, target="it", temperature=0.5)) == first
            after = _counts(server)
    assert (before["hits"], before["misses"], after["hits"], after["misses"]) == (1, 2, 4, 2)


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"beam_size": 3}, marks=pytest.mark.slow)], ids=["greedy", "beam"]
)
async def test_an_engine_dies_under_shared_decodes(cached: Server, server: Server, options: dict[str, Any]) -> None:
    """Each reader gets every event once, those that had begun and those that come later."""
    # So many that the engine cannot have decoded them all before it is looked at.
    text = " ".join(f"{sentence[:-1]} in {year}." for year in (1990, 1991) for sentence in SENTENCES)
    async with server.client() as client:
        expected = _repeatable(await stream(client, text, **options))
    before, restarts = _counts(cached), cached.metric("dragoman_engine_restarts_total")
    async with cached.client() as client:
        readers = [asyncio.create_task(stream(client, text, **options)) for _ in range(4)]
        await asyncio.to_thread(cached.wait_until_busy)
        os.kill(cached.wait_for_engine(), signal.SIGKILL)
        readers += [asyncio.create_task(stream(client, text, **options)) for _ in range(4)]
        results = await asyncio.gather(*readers)
    assert cached.metric("dragoman_engine_restarts_total") == restarts + 1
    counts = {kind: count - before[kind] for kind, count in _counts(cached).items()}
    cached.wait_for_metric("dragoman_slots_used", 0)
    for events in results:
        assert [event.id for event in events] == list(range(len(events)))
        assert text_of(events) == events[-1].data["translatedText"]
        if COMPILES:
            assert _repeatable(events) == expected
    assert counts["misses"] == 2 * len(SENTENCES)
    assert counts["hits"] + counts["joined"] == 7 * counts["misses"]


async def test_a_client_that_leaves_takes_nothing_from_others(cached: Server) -> None:
    """The first of two, in the middle; when the other one leaves, too, the engine has nothing to do."""
    text = " ".join(SENTENCES)
    body = {"q": text, **REQUEST, "beam_size": 4}
    async with cached.client() as client:
        stays = asyncio.create_task(stream(client, text, beam_size=4))
        async with client.stream("POST", "/translate", json=body) as leaves:
            events = read_events(leaves)
            assert [(await anext(events)).name for _ in range(2)] == ["start", "token"]
        whole = await stays
        assert text_of(whole) == whole[-1].data["translatedText"]
        assert _repeatable(await stream(client, text, beam_size=4)) == _repeatable(whole)

        both = [asyncio.create_task(stream(client, LONG_TEXT, beam_size=8)) for _ in range(2)]
        await asyncio.to_thread(cached.wait_until_busy)
        for reader in both:
            reader.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        assert all(reader.cancelled() for reader in both)
    cached.wait_for_metric("dragoman_slots_used", 0)
    cached.wait_for_metric("dragoman_requests_waiting", 0)


async def test_a_replay_that_nobody_reads_is_closed(start_server: StartServer) -> None:
    """Another client is served meanwhile."""
    with start_server("--cache-mb", "32", "--client-timeout-seconds", "3", "--max-characters", "1000000") as server:
        text = LONG_TEXT * 4
        async with server.client() as client:
            await stream(client, text)
            before = _counts(server)
            async with client.stream("POST", "/translate", json={"q": text, **REQUEST}) as stuck:
                cancelled = 'endpoint="/translate",outcome="cancelled"'
                await asyncio.to_thread(server.wait_for_metric, "dragoman_requests_total", 1, cancelled)
                assert (await stream(client, SENTENCES[0]))[-1].name == "done"
                assert stuck.status_code == 200
            assert _counts(server)["generated"] == before["generated"]


@pytest.mark.slow
async def test_the_limit_is_kept(start_server: StartServer) -> None:
    with start_server("--cache-mb", "1") as server:
        async with server.client() as client:
            for number in range(16):
                await stream(client, " ".join(f"{number} {each}" for each in SENTENCES))
                if (counts := _counts(server))["evictions"] > 0:
                    break
    assert counts["evictions"] > 0
    assert 900_000 < counts["bytes"] <= 1_000_000


def test_a_glossary_is_kept_for_its_key_and_everybody_pays(tmp_path: Path) -> None:
    with closing(KeyStore(tmp_path / "keys.db", create=True)) as file:
        keys = [file.add(name, KeyLimits()) for name in ("a", "b")]
    flags = ("--keys", str(tmp_path / "keys.db"), "--cache-mb", "8")
    with run_server(tmp_path / "log", *flags) as server:

        def translate(key: str, **options: object) -> tuple[str, float]:
            body = {"q": PLAIN, "source": "en", "target": "fr", "api_key": key, **options}
            before = server.metric("dragoman_cache_hits_total")
            answer = httpx.post(f"{server.url}/translate", json=body, timeout=60)
            assert answer.status_code == 200, answer.text
            return answer.json()["translatedText"], server.metric("dragoman_cache_hits_total") - before

        assert [translate(key)[1] for key in (*keys, *keys)] == [0, 1, 1, 1]
        private = {"glossary": {"man": "bonhomme"}}
        answers = [translate(key, **private) for key in (*keys, *keys)]
        # The free translation, and two requests that place the term.
        assert [hits for _, hits in answers] == [0, 0, 3, 3]
        assert all("bonhomme" in text for text, _ in answers)
        for key in keys:
            usage = httpx.get(f"{server.url}/v2/usage", headers={"Authorization": f"Bearer {key}"}).json()
            assert usage["character_count"] == 4 * len(PLAIN)
