"""The requests that an engine gets, and those that are blamed for its death."""

from array import array

import pytest

from service.engine.messages import Admitted, Cancel, Command, StepReport, StepStats, Submit, TokenBlock, TokenReport
from service.errors import EngineFailed
from service.supervisor.engine_requests import EngineObserver, EngineRequests
from service.supervisor.generation import Generation
from tests.generation_requests import generation_request, submitted


class Engine:
    """The requests of one replica, and the ids that its present engine has, in the order of their arrival."""

    def __init__(self, requests: int) -> None:
        self.has: list[int] = []
        self.requests = EngineRequests(EngineObserver(), self._receive)
        self.generations = [self.add() for _ in range(requests)]
        self.requests.engine_started()

    def add(self) -> Generation:
        return submitted(self.requests, generation_request([5, 2], 9)).generation

    def _receive(self, command: Command) -> None:
        if isinstance(command, Submit):
            self.has.append(command.request_id)
        elif isinstance(command, Cancel):
            self.has.remove(command.request_id)

    def running(self) -> list[Generation]:
        return [each for each in self.generations if each.request_id in self.has]

    def admit(self, *generations: Generation) -> None:
        ids = [each.request_id for each in generations]
        self.requests.handle_admitted(Admitted(ids, [0.1] * len(ids)))

    def write(self, *request_ids: int) -> None:
        """Report a new token of each request."""
        self.requests.handle_step(StepReport([TokenReport(each, 7, -0.1) for each in request_ids], StepStats(1)))

    def die(self) -> None:
        self.has = []
        self.requests.engine_ended()
        self.requests.engine_started()


def _close(generation: Generation) -> None:
    for reader in [*generation._readers]:
        reader.close()


async def _failure(generation: Generation) -> str:
    with pytest.raises(EngineFailed) as caught:
        await generation.add_reader().read(deadline=float("inf"))
    return caught.value.message


def test_only_admitted_requests_are_blamed() -> None:
    engine = Engine(requests=3)
    first, second, _ = engine.generations
    for _ in range(2):
        engine.admit(first, second)
        engine.die()
    assert [each.deaths for each in engine.generations] == [(2, 0, 0), (2, 0, 0), (0, 2, 0)]
    assert engine.running() == [first]


def test_a_new_token_clears_a_request() -> None:
    """The place where the engine died is behind it."""
    engine = Engine(requests=2)
    for _ in range(9):
        engine.admit(*engine.generations)
        engine.write(*engine.has)
        engine.die()
    assert len(engine.running()) == 2
    assert not engine.requests.has_suspects


async def test_suspects_run_alone_and_only_the_cause_fails() -> None:
    engine = Engine(requests=5)
    *company, waits = engine.generations
    poison = company[1]
    lone_runs: list[Generation] = []
    for _ in range(20):
        if waits in engine.running() and not engine.requests.has_suspects and poison not in engine.running():
            break
        if engine.requests.has_suspects:
            [alone] = engine.running()
            lone_runs.append(alone)
            engine.admit(alone)
            if alone is poison:
                engine.die()
            else:
                engine.write(alone.request_id)
        else:
            engine.admit(*company)
            engine.die()
    assert [company.index(each) for each in lone_runs] == [0, 1, 2, 3, 1, 1], "the cause last, and again"
    assert "with no other request in it" in await _failure(poison)
    assert engine.running() == [engine.generations[0], *engine.generations[2:]]


async def test_a_request_that_kills_engines_before_they_report_its_admission_fails_alone() -> None:
    """The number of deaths alone tells it from requests that only wait."""
    engine = Engine(requests=4)
    poison = engine.generations[2]
    for _ in range(20):
        if poison not in engine.running():
            break
        if not engine.requests.has_suspects:
            engine.admit(engine.generations[0])  # the engine takes up one after the other
        engine.die()
        while engine.requests.has_suspects and poison not in engine.running():
            [alone] = engine.running()
            engine.admit(alone)
            engine.write(alone.request_id)
    assert "with no other request in it" in await _failure(poison)
    assert engine.running() == [each for each in engine.generations if each is not poison]


@pytest.mark.parametrize(("announces", "most"), [(True, 2 + 3), (False, 3 + 3)])
def test_a_request_kills_so_many_engines(announces: bool, most: int) -> None:
    """An engine may die before it reports the admission."""
    engine = Engine(requests=1)
    deaths = 0
    while engine.has:
        if announces:
            engine.admit(*engine.generations)
        engine.die()
        deaths += 1
    assert deaths == most


def test_waiting_behind_a_request_that_kills_engines_makes_no_suspect() -> None:
    engine = Engine(requests=2)
    poison, waits = engine.generations
    for _ in range(2):
        engine.admit(poison)
        engine.die()
    assert engine.running() == [poison]
    for _ in range(3):
        engine.admit(poison)
        engine.die()
    assert engine.running() == [waits]
    assert not engine.requests.has_suspects


def test_a_suspect_is_not_blamed_for_what_the_one_before_may_have_done() -> None:
    """The engine has not read that the other one is cancelled: it may still run it."""
    engine = Engine(requests=2)
    first, second = engine.generations
    for _ in range(2):
        engine.admit(first, second)
        engine.die()
    engine.admit(first)
    engine.write(first.request_id)
    assert engine.running() == [second]
    engine.die()
    assert second.deaths.alone == 0
    assert engine.running() == [second]
    engine.die()
    assert second.deaths.alone == 1


def test_others_wait_while_a_suspect_runs_and_its_end_releases_them() -> None:
    engine = Engine(requests=2)
    suspect, other = engine.generations
    for _ in range(2):
        engine.admit(suspect)
        engine.die()
    late = engine.add()
    engine.generations.append(late)
    assert engine.running() == [suspect]
    assert engine.requests.movable == [other, late]
    _close(suspect)
    assert engine.running() == [other, late]


def test_a_report_on_its_way_is_not_taken_for_a_later_one() -> None:
    """A request that is withdrawn for a suspect is generated again from the tokens that were received."""
    engine = Engine(requests=2)
    first, second = engine.generations
    for _ in range(2):
        engine.admit(first, second)
        engine.die()
    [old_id] = engine.has
    engine.write(old_id)  # clears the first; the second is next
    engine.write(old_id)
    assert engine.running() == [second]
    assert len(first.tokens) == 1


def test_a_request_moves_to_another_replica_with_its_tokens() -> None:
    giver, taker = Engine(requests=1), Engine(requests=3)
    [generation] = giver.generations
    giver.admit(generation)
    giver.write(generation.request_id)
    giver.requests.engine_ended()
    giver.requests.release(generation)
    taker.requests.take(generation)
    taker.write(taker.has[-1])
    assert len(generation.tokens) == 2
    _close(generation)
    assert (len(giver.requests), len(taker.requests), len(taker.has)) == (0, 3, 3)


def test_a_block_is_delivered_to_its_requests_and_to_nobody_who_left() -> None:
    engine = Engine(requests=3)
    first, left, last = engine.generations
    engine.admit(first, left, last)
    _close(left)
    ids = [each.request_id for each in (first, left, last)]
    block = TokenBlock(
        array("q", ids).tobytes(),
        bytes([2, 3, 1]),
        bytes([0, 1, 2]),
        array("i", [5, 6, 7, 8, 2, 9]).tobytes(),
        array("f", [-0.5, -1.5, 0, 0, 0, -2.5]).tobytes(),
    )
    assert block.tokens == 6
    engine.requests.handle_step(StepReport([], StepStats(3), block=block))
    assert [(each.token_id, each.logprob, each.finish_reason) for each in first.tokens] == [
        (5, -0.5, None),
        (6, -1.5, None),
    ]
    assert [(each.token_id, each.logprob, each.finish_reason) for each in last.tokens] == [(9, -2.5, "length")]
    assert left.tokens == []
    assert engine.requests.in_flight == [first]


def test_what_was_not_reported_of_a_block_is_generated_again() -> None:
    """An engine that dies inside a block has reported nothing of it: the next one continues after the last report."""
    engine = Engine(requests=1)
    [generation] = engine.generations
    engine.admit(generation)
    engine.write(generation.request_id)
    sent: list[Command] = []
    engine.requests._send = sent.append
    engine.die()
    [submitted] = sent
    assert isinstance(submitted, Submit)
    assert submitted.request.constraints.forced_ids == submitted.request.resume.sent_ids == [7]
