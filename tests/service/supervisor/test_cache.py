"""Equal requests: kept results, shared decodes, and the fate of their readers."""

import asyncio
import gc
import weakref
from typing import Any, cast

import msgspec
import pytest

from model.beam_search import Inspection
from service.engine.generation_request import Beam, Constraints, GenerationRequest, GivenTerm, Inspect, Prompt, Sampling
from service.engine.messages import Alternative, FinishReason, StepReport, StepStats, TokenReport, TokenRun
from service.errors import DeadlineExceeded, EngineFailed, NotReady
from service.supervisor.cache import CacheObserver, SegmentCache, SegmentStore
from service.supervisor.engine_process import EngineProcess
from service.supervisor.generation import Generation, Reader
from service.supervisor.pool import EnginePool
from tests.generation_requests import changed, generation_request
from tests.service.supervisor.test_engine_requests import Engine

REQUEST = generation_request([5, 2], 9)
FOREVER = float("inf")


class Counted:
    def __init__(self) -> None:
        self.hits = self.joins = self.misses = 0

    def hit(self) -> None:
        self.hits += 1

    def joined(self) -> None:
        self.joins += 1

    def missed(self) -> None:
        self.misses += 1


class Cached(Engine):
    """A pool with a cache and one engine, which is not supervised."""

    available = True

    def __init__(self, variant: str = "weights int8 cpu", store: SegmentStore | None = None) -> None:
        super().__init__(requests=0)
        self.counted = Counted()
        observer = CacheObserver(self.counted.hit, self.counted.joined, self.counted.missed)
        self.store = store or SegmentStore(1_000_000, observer)
        self.loads = 0
        cache, engines = SegmentCache(self.store, variant), [cast(EngineProcess, self)]
        self.pool = EnginePool(engines, 100, cache, self._load)

    def submit(self, request: GenerationRequest = REQUEST, scope: str = "") -> Reader:
        return self.pool.submit(request, scope)

    def _load(self) -> None:
        self.loads += 1

    async def stop(self, reason: str) -> None:
        held = self.requests.in_flight
        await asyncio.sleep(0)
        self.requests.fail(held, EngineFailed(reason))

    def report(self, token: int, finish_reason: FinishReason | None = None, **fields: Any) -> None:
        """Report a token of every request that the engine has."""
        tokens = [TokenReport(each, token, -0.1 * token, finish_reason, **fields) for each in self.has]
        if finish_reason is not None:
            self.has = []
        self.requests.handle_step(StepReport(tokens, StepStats(1)))

    def admit_all(self) -> None:
        self.admit(*self.requests.in_flight)

    def fail_in_step(self) -> None:
        self.requests.handle_step(StepReport([], StepStats(1), [*self.has]))


@pytest.fixture
def engine() -> Cached:
    return Cached()


def _ids(reader: Reader) -> list[int]:
    return [token.token_id for token in reader.tokens]


async def _read(reader: Reader) -> list[list[TokenReport]]:
    read = []
    while reports := await reader.read_tokens(FOREVER):
        read.append(reports)
    return read


async def test_an_equal_request_gets_the_same_tokens_without_an_engine(engine: Cached) -> None:
    first = engine.submit()
    engine.report(7, inspection=Inspection(alignment=(1, 0.25)))
    alternative = Alternative([TokenReport(0, 8, -1 / 3), TokenReport(0, 2, -0.5)], -5 / 6)
    engine.report(2, "stop", alternatives=[alternative], term=0)
    second = engine.submit()
    assert engine.has == []
    assert second.generation.finished
    assert second.admitted_at is not None
    assert msgspec.json.encode(second.tokens) == msgspec.json.encode(first.tokens)
    assert await _read(second) == [second.tokens]
    second.close()
    assert (engine.counted.hits, engine.counted.misses) == (1, 1)


async def test_runs_of_tokens_are_shared_and_kept(engine: Cached) -> None:
    first, follower = engine.submit(), engine.submit()
    [shared] = engine.requests.in_flight
    shared.deliver(TokenRun([7, 8], [-0.25, -1 / 3]))
    late = engine.submit()
    shared.deliver(TokenRun([2], [-0.5], "stop"))
    kept = engine.submit()
    expected = [(7, -0.25, None), (8, -1 / 3, None), (2, -0.5, "stop")]
    for reader in (first, follower, late, kept):
        [tokens] = await _read(reader)
        assert [(each.token_id, each.logprob, each.finish_reason) for each in tokens] == expected
    assert (engine.counted.hits, engine.counted.joins, engine.counted.misses) == (1, 2, 1)


CHANGES: list[dict[str, Any]] = [
    {"source_ids": [5, 6, 2]},
    {"decoder_ids": [9]},
    {"max_new_tokens": 8},
    {"sampling": Sampling(0.5)},
    {"sampling": Sampling(0.5, seed=1)},
    {"sampling": Sampling(0.5, top_k=3)},
    {"sampling": Sampling(0.5, top_p=0.5)},
    {"beam": Beam(2)},
    {"beam": Beam(2, 0.5)},
    {"beam": Beam(2, alternatives=1)},
    {"repetition_penalty": 1.5},
    {"no_repeat_ngram_size": 2},
    {"forced_ids": [7]},
    {"terms": [GivenTerm(0, 1, [7])]},
    {"terms": [GivenTerm(0, 1, [8])]},
    {"closing_ids": [3]},
    {"alignment": True},
]


def test_each_option_that_matters_makes_another_request(engine: Cached) -> None:
    requests = [REQUEST, *(changed(REQUEST, **each) for each in CHANGES)]
    for _ in range(2):
        for request in requests:
            engine.submit(request)
    assert len(engine.has) == len(requests)
    assert engine.counted.joins == len(requests)


def test_no_field_of_a_request_is_forgotten() -> None:
    """A new field gets a line above, unless it only says when something happens."""
    groups: list[type[msgspec.Struct]] = [Prompt, Sampling, Beam, Constraints]
    names = {name for group in groups for name in group.__struct_fields__} | {"max_new_tokens", "alignment"}
    varied = {name for each in CHANGES for name in each} - {"sampling", "beam"}
    in_values = {"temperature", "top_k", "top_p", "seed", "size", "length_penalty", "alternatives"}
    assert varied | in_values == names
    # Never reach the cache: the rest of what is inspected, what is resumed, a draft, and who waits for whom.
    assert set(Inspect.__struct_fields__) - names == {"candidates", "attention", "self_attention", "hypotheses"}
    assert set(GenerationRequest.__struct_fields__) == {
        "prompt",
        "search",
        "constraints",
        "resume",
        "inspect",
        "yields_to_new",
        "draft",
    }


def test_a_draft_does_not_change_the_name_of_a_request(engine: Cached) -> None:
    for draft in ([], [5, 6], [7]):
        engine.submit(changed(REQUEST, draft=draft))
    assert len(engine.has) == 1


def test_a_greedy_request_has_no_seed(engine: Cached) -> None:
    for sampling in (Sampling(), Sampling(seed=3), Sampling(top_k=5), Sampling(top_p=0.5)):
        engine.submit(changed(REQUEST, sampling=sampling))
    assert len(engine.has) == 1


def test_scopes_share_nothing(engine: Cached) -> None:
    for scope in ("", "key:a", "key:b", "key:a"):
        engine.submit(REQUEST, scope)
    assert len(engine.has) == 2 + 1
    engine.report(2, "stop")
    engine.submit(REQUEST, "key:c")
    assert len(engine.has) == 1


def test_other_weights_never_hit(engine: Cached) -> None:
    engine.submit()
    engine.report(2, "stop")
    assert not Cached("other weights int8 cpu", engine.store).submit().generation.finished
    assert Cached(store=engine.store).submit().generation.finished, "the same weights, loaded again"


async def test_equal_requests_in_flight_share_a_decode(engine: Cached) -> None:
    """Each reads all tokens once, whenever it came."""
    readers = [engine.submit()]
    engine.admit_all()
    for token in (7, 8, 9):
        engine.report(token)
        readers.append(engine.submit())
    engine.report(2, "stop")
    assert [_ids(each) for each in readers] == [[7, 8, 9, 2]] * 4
    assert [each.token_id for part in await _read(readers[-1]) for each in part] == [7, 8, 9, 2]
    assert all(each.admitted_at is not None and each.admitted_at >= each.submitted_at for each in readers[1:])
    assert (engine.counted.joins, engine.counted.misses) == (3, 1)
    assert len(engine.requests) == 0


@pytest.mark.parametrize("leaving", [0, 1])
def test_a_reader_that_leaves_takes_nothing_from_another(engine: Cached, leaving: int) -> None:
    readers = [engine.submit(), engine.submit()]
    engine.report(7)
    readers[leaving].close()
    readers[leaving].close()
    engine.report(2, "stop")
    assert _ids(readers[1 - leaving]) == [7, 2]
    assert engine.submit().generation.finished


def test_the_last_reader_that_leaves_cancels(engine: Cached) -> None:
    readers = [engine.submit(), engine.submit()]
    engine.report(7)
    for each in readers:
        each.close()
    assert engine.has == []
    assert len(engine.requests) == 0
    late = engine.submit()
    assert (len(engine.has), _ids(late)) == (1, []), "nothing of the cancelled one is kept"


async def test_each_reader_has_its_own_deadline_and_failure(engine: Cached) -> None:
    patient, hasty, stopped = [engine.submit() for _ in range(3)]
    with pytest.raises(DeadlineExceeded):
        await hasty.read(asyncio.get_running_loop().time())
    hasty.close()
    stopped.fail(NotReady("the server is shutting down"))
    engine.report(2, "stop")
    assert [each.token_id for part in await _read(patient) for each in part] == [2]
    with pytest.raises(NotReady):
        await stopped.read(FOREVER)


def test_a_death_takes_nothing_and_repeats_nothing(engine: Cached) -> None:
    readers = [engine.submit(), engine.submit()]
    engine.admit_all()
    engine.report(7)
    engine.die()
    assert len(engine.has) == 1
    readers.append(engine.submit())
    engine.report(2, "stop")
    assert [_ids(each) for each in readers] == [[7, 2]] * 3


async def _failure(reader: Reader) -> str:
    with pytest.raises(EngineFailed) as caught:
        await _read(reader)
    return caught.value.message


async def test_who_follows_a_request_that_fails_continues_alone(engine: Cached) -> None:
    """Followers keep their tokens, and come to their end if the failure does not repeat itself."""
    first, second, third = [engine.submit() for _ in range(3)]
    engine.admit_all()
    engine.report(7)
    engine.fail_in_step()
    assert "failed in a step" in await _failure(first)
    assert len(engine.has) == 2
    fourth = engine.submit()
    assert len(engine.has) == 3, "nobody joins those who continue alone"
    second.close()
    assert len(engine.has) == 2
    engine.report(2, "stop")
    assert (_ids(third), _ids(fourth)) == ([7, 2], [2])


async def test_a_request_that_kills_engines_fails_for_each_of_its_readers_by_itself(engine: Cached) -> None:
    """The request kills no more engines than without a cache; a request in its company goes on."""
    poison = [engine.submit(), engine.submit()]
    innocent = engine.submit(changed(REQUEST, source_ids=[6, 2]))
    deaths = 0
    while any(map(_is_poison, engine.requests.in_flight)):
        running = [each for each in engine.requests.in_flight if each.request_id in engine.has]
        engine.admit(*running)
        if any(map(_is_poison, running)):
            engine.die()
            deaths += 1
        else:
            engine.report(7)
    for each in poison:
        assert "the engine died" in await _failure(each)
    engine.report(2, "stop")
    assert innocent.generation.finished
    assert deaths == 5 + 5


def _is_poison(generation: Generation) -> bool:
    return generation.request == REQUEST


async def test_a_stop_ends_all_readers_and_later_ones_do_not_join_them(engine: Cached) -> None:
    """No reader is handed to engines that are gone."""
    readers = [engine.submit(), engine.submit()]
    stopping = asyncio.create_task(engine.pool.stop("no room"))
    for _ in range(2):  # the pool, then its engines
        await asyncio.sleep(0)
    later = engine.submit()
    await stopping
    assert [await _failure(each) for each in readers] == ["no room"] * 2
    assert engine.has == [later.generation.request_id]


def test_engines_are_loaded_for_what_has_to_be_decoded_only(engine: Cached) -> None:
    for _ in range(3):
        engine.submit()
    assert engine.loads == 1
    engine.report(2, "stop")
    assert engine.submit().generation.finished
    assert not engine.submit(scope="key:a").generation.finished
    assert engine.loads == 2


async def test_failures_are_not_kept(engine: Cached) -> None:
    failed = engine.submit()
    engine.fail_in_step()
    assert "failed in a step" in await _failure(failed)
    assert len(engine.store) == 0
    assert not engine.submit().generation.finished


def test_nothing_stays_of_requests_that_are_over(engine: Cached) -> None:
    """Memory is freed at once: no cycle of references waits for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        readers = [engine.submit() for _ in range(3)]
        engine.report(7)
        readers[0].close()
        alive = [weakref.ref(each) for each in (*readers, *engine.requests.in_flight)]
        engine.report(2, "stop")
        del readers
        assert [each() for each in alive] == [None] * 4
    finally:
        gc.enable()


def test_a_request_that_must_not_wait_does_not_join_one_that_gives_way(engine: Cached) -> None:
    engine.submit(changed(REQUEST, yields_to_new=True))
    urgent = engine.submit()
    assert len(engine.has) == 2
    engine.report(2, "stop")
    assert urgent.generation.finished
    assert engine.submit(changed(REQUEST, yields_to_new=True)).generation.finished, "the result is the same"


async def test_a_long_replay_comes_in_parts(engine: Cached) -> None:
    """Readers make events of what they read, and others must have their turn."""
    engine.submit()
    for _ in range(150):
        engine.report(7)
    engine.report(2, "stop")
    assert [len(part) for part in await _read(engine.submit())] == [64, 64, 23]
