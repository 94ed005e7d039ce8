"""A whole comparison: its schedule with fakes, and once for real on a model of a toy's size."""

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.bench import measure as module
from loadtest.bench.measure import measure
from loadtest.bench.peers import Answer, Comparison, Measured, Memory, WrongLength
from loadtest.bench.roster import ENTRIES
from loadtest.bench.weights import sources
from loadtest.bench.workload import MEAN, Arrival, Request
from service.engine.modes import MODES
from tests.loadtest.bench.toy import COMPARISON, TOY

MEMORY = Memory(peak=7, resident=5)


class _Fake:
    """Always generates so many tokens a second."""

    disagrees: range = range(0)
    """Numbers of the sources that get one token more from the other one."""

    def __init__(self, name: str, speed: float, calls: list[tuple[str, Sequence[Request] | Sequence[Arrival]]]) -> None:
        self._name = name
        self._speed = speed
        self._calls = calls

    def closed_loop(self, requests: Sequence[Request], concurrency: int) -> Measured:
        self._calls.append((self._name, requests))
        return Measured(int(self._speed * concurrency), 1.0, [Answer(0.1) for _ in requests])

    def open_loop(self, arrivals: Sequence[Arrival]) -> Measured:
        self._calls.append((self._name, arrivals))
        return Measured(1, 1.0, [Answer(float(number)) for number in range(len(arrivals))])

    def lengths(self, sources: Sequence[list[int]]) -> list[int]:
        return [20 + (self._name == "other" and number in self.disagrees) for number in range(len(sources))]

    def memory(self) -> Memory:
        return MEMORY


Calls = list[tuple[str, Sequence[Request] | Sequence[Arrival]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made: Calls = []
    speeds = {"dragoman": 10 * MEAN, "other": 5 * MEAN}

    @contextmanager
    def peer_process(name: str, comparison: Comparison, models: Path) -> Iterator[_Fake]:
        yield _Fake(name, speeds[name], made)

    monkeypatch.setattr(module, "peer_process", peer_process)
    monkeypatch.setattr(module, "prepare", lambda *_: None)
    return made


def test_peers_take_turns_on_the_same_requests(calls: Calls) -> None:
    measure(COMPARISON, TOY, lambda _: None)
    closed = calls[: 2 * 2 * 3]

    assert [name for name, _ in closed[:4]] == ["other", "dragoman"] * 2
    assert [name for name, _ in closed[4:8]] == ["dragoman", "other"] * 2
    assert all(ours == theirs for (_, ours), (_, theirs) in zip(closed[::2], closed[1::2], strict=True))
    # Rounds have requests of their own; the warm-up has only as many as are in flight.
    assert closed[4][1] == closed[6][1] != closed[8][1] == closed[10][1]
    assert [len(work) for _, work in closed[::2]] == [1, 4, 64, 64, 64, 64]


def test_arrivals_are_a_share_of_each_ones_own_capacity(calls: Calls) -> None:
    """The fakes answer 40 and 20 requests a second with 4 in flight."""
    runs = measure(COMPARISON, TOY, lambda _: None).runs
    opened = [run for run in runs if run.loop == "open"]

    assert {(run.peer, run.level, run.requests_per_second) for run in opened} == {
        ("dragoman", 0.5, 20.0),
        ("dragoman", 0.85, 34.0),
        ("other", 0.5, 10.0),
        ("other", 0.85, 17.0),
    }
    arrivals = [len(work) for _, work in calls[2 * 2 * 3 :]]
    assert sorted(set(arrivals)) == [400, 680, 800, 1360]


def test_trained_weights_get_sentences_of_which_all_make_equally_many_tokens(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Fake, "disagrees", range(1, 4))
    trained = replace(COMPARISON, shape="trained", loads=[])
    measure(trained, TOY, lambda _: None)
    given = {(tuple(request.source_ids), request.new_tokens) for _, work in calls for request in work}  # type: ignore[union-attr]
    agreed = {(tuple(ids), 20) for number, ids in enumerate(sources()) if number not in range(1, 4)}
    assert given <= agreed
    assert len(given) > 20


def test_engines_that_hardly_agree_are_not_compared(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Fake, "disagrees", range(1, 41))
    with pytest.raises(WrongLength, match="only 20 of 60 sentences get equally many tokens"):
        measure(replace(COMPARISON, shape="trained"), TOY, lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode in ("fp32", "int8")])
def test_for_real(mode: str) -> None:
    """Every peer that is installed, each in a process of its own."""
    peers = ["dragoman"]
    for name, entry in ENTRIES.items():
        if name != "dragoman" and _installed(entry.package):
            peers.append(name)
    comparison = replace(
        COMPARISON, mode=mode, peers=peers, rounds=1, concurrency=[2], loads=[0.5], arrival_seconds=0.1
    )

    result = measure(comparison, TOY, lambda _: None)

    assert [(run.peer, run.loop) for run in result.runs] == [
        (peer, loop) for loop in ("closed", "open") for peer in peers
    ]
    assert all(run.measured.tokens > 0 for run in result.runs)
    for run in result.runs:
        assert any(answer.gaps for answer in run.measured.answers) == (run.peer == "dragoman")
    if Path("/proc/self/status").exists():
        assert all(memory is not None and memory.peak > 10e6 for memory in result.memory.values())


def _installed(package: str | None) -> bool:
    return importlib.util.find_spec(package or "torch") is not None
