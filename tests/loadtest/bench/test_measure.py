"""A whole comparison: its schedule with fakes, and once for real on a model of a toy's size."""

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.bench import measure as module
from loadtest.bench.measure import measure
from loadtest.bench.peers import Answer, Comparison, Measured, WrongLength
from loadtest.bench.roster import ENTRIES
from loadtest.bench.weights import sources
from loadtest.bench.workload import Request
from service.engine.modes import MODES
from tests.loadtest.bench.toy import COMPARISON, TOY


class _Fake:
    """Generates a token a second for each request in flight."""

    disagrees: range = range(0)
    """Numbers of the sources that get one token more from the other one."""

    def __init__(self, name: str, calls: "Calls") -> None:
        self._name = name
        self._calls = calls

    def closed_loop(self, requests: Sequence[Request], concurrency: int) -> Measured:
        self._calls.append((self._name, requests))
        return Measured(concurrency, 1.0, [Answer(0.1) for _ in requests])

    def lengths(self, sources: Sequence[list[int]]) -> list[int]:
        return [20 + (self._name == "other" and number in self.disagrees) for number in range(len(sources))]

    def memory(self) -> int:
        return 7


Calls = list[tuple[str, Sequence[Request]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made: Calls = []

    @contextmanager
    def peer_process(name: str, comparison: Comparison, models: Path) -> Iterator[_Fake]:
        yield _Fake(name, made)

    monkeypatch.setattr(module, "peer_process", peer_process)
    monkeypatch.setattr(module, "prepare", lambda *_: None)
    return made


def test_peers_take_turns_on_the_same_requests(calls: Calls) -> None:
    measure(COMPARISON, TOY, lambda _: None)

    assert len(calls) == 2 * 2 * 3
    assert [name for name, _ in calls[:4]] == ["other", "dragoman"] * 2
    assert [name for name, _ in calls[4:8]] == ["dragoman", "other"] * 2
    assert all(ours == theirs for (_, ours), (_, theirs) in zip(calls[::2], calls[1::2], strict=True))
    # Rounds have requests of their own; the warm-up has only as many as are in flight.
    assert calls[4][1] == calls[6][1] != calls[8][1] == calls[10][1]
    assert [len(work) for _, work in calls[::2]] == [1, 4, 64, 64, 64, 64]


def test_trained_weights_get_sentences_of_which_all_make_equally_many_tokens(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Fake, "disagrees", range(1, 4))
    trained = replace(COMPARISON, shape="trained")
    measure(trained, TOY, lambda _: None)
    given = {(tuple(request.source_ids), request.new_tokens) for _, work in calls for request in work}
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
    comparison = replace(COMPARISON, mode=mode, peers=peers, rounds=1, concurrency=[2])

    result = measure(comparison, TOY, lambda _: None)

    assert [run.peer for run in result.runs] == peers
    assert all(run.measured.tokens > 0 for run in result.runs)
    for run in result.runs:
        assert any(answer.gaps for answer in run.measured.answers) == (run.peer == "dragoman")
    assert all(memory > 10e6 for memory in result.memory.values())


def _installed(package: str | None) -> bool:
    return importlib.util.find_spec(package or "torch") is not None
