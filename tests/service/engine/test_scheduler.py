"""The scheduler by its rules, then under random histories."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.beam_search import Choice, Extension
from service.engine.batching import PlainTensors, StepScores
from service.engine.generation_request import Beam, GenerationRequest
from service.engine.messages import TokenReport
from service.engine.scheduler import MAX_PREFIX_ROWS, Plan, Scheduler
from tests.generation_requests import changed, generation_request

EOS = 2


def _scheduler(slots: int = 2, max_prefill: int = 8) -> Scheduler:
    return Scheduler(slots=slots, max_prefill=max_prefill, bos_id=1, eos_id=EOS)


def _request(max_new_tokens: int = 5, forced: list[int] | None = None, beam: int = 1) -> GenerationRequest:
    return generation_request([7, EOS], max_new_tokens, forced_ids=forced or [], beam=Beam(beam))


def _step(scheduler: Scheduler, token: int = 9) -> tuple[Plan, list[TokenReport]]:
    """Every row goes on with `token`, or is given some others for a beam's width."""
    plan = scheduler.schedule()
    extensions = [
        [
            Extension(row.parent, Choice(token + rank if row.forced is None else row.forced, -0.5), row.total - 0.5)
            for row in running.sequence.rows()
            for rank in range(row.num_extensions)
        ]
        for running in plan.running
    ]
    tokens = torch.full((1, len(plan.plain)), token)
    own = StepScores(tokens, tokens * 0 - 0.5, torch.empty(0), counts=torch.ones_like(tokens[0]))
    block, ended, broken = PlainTensors(scheduler.table).advance(plan.plain, own)
    scheduler.end(ended)
    reports, _, failed = scheduler.update(plan, [[own] for own in extensions])
    assert not failed
    assert not broken
    return plan, [*(report for request_id, run in block.runs() for report in run.reports(request_id)), *reports]


def _ids(scheduler: Scheduler, plan: Plan) -> list[int]:
    """Return the ids of the plan's requests in the order of their slots."""
    with_rows = [(running.slots[0], running.request_id) for running in plan.running]
    plain = [(slot, scheduler.table.numbers[slot]) for slot in plan.plain]  # the column of ids comes first
    return [request_id for _, request_id in sorted(with_rows + plain)]


def _stepped(scheduler: Scheduler) -> list[int]:
    """Make a step and return the ids of its requests."""
    return _ids(scheduler, _step(scheduler)[0])


def test_joins_at_the_next_step_and_leaves_at_its_own_last_token() -> None:
    scheduler = _scheduler()
    scheduler.add(1, _request(max_new_tokens=3))
    _step(scheduler)
    scheduler.add(2, _request(max_new_tokens=3))
    assert _stepped(scheduler) == [1, 2]
    _, reports = _step(scheduler)
    assert [(r.request_id, r.finish_reason) for r in reports] == [(1, "length"), (2, None)]
    assert _stepped(scheduler) == [2]
    assert not scheduler.has_work


def test_a_forced_prefix_takes_one_step_and_then_as_many_as_ever() -> None:
    scheduler = _scheduler()
    scheduler.add(1, _request(max_new_tokens=4, forced=[5, 6]))
    seen = [[report.token_id for report in _step(scheduler)[1]] for _ in range(3)]
    assert seen == [[5, 6], [9], [9]]
    assert not scheduler.has_work


def test_prefixes_are_bounded_for_each_step() -> None:
    scheduler = _scheduler(slots=10)
    long, longer = [5] * (MAX_PREFIX_ROWS // 2), [5] * 2 * MAX_PREFIX_ROWS
    for request_id, forced in enumerate([long, long, long, [], longer, [5]]):
        scheduler.add(request_id, _request(max_new_tokens=1000, forced=forced))
    admitted = [[each.request_id for each in _step(scheduler)[0].admitted] for _ in range(4)]
    assert admitted == [[0, 1], [2, 3], [4], [5]], "one that is too long comes alone"


def test_requests_that_lost_their_engine_come_before_those_without_a_token() -> None:
    """Their readers have begun, and would wait for whole sentences of others."""
    scheduler = _scheduler(slots=1)
    for request_id, sent in enumerate([[], [], [9, 8], [], [9]]):
        scheduler.add(request_id, changed(_request(max_new_tokens=1), sent_ids=sent))
    admitted = [_step(scheduler)[0].admitted[0].request_id for _ in range(5)]
    assert admitted == [2, 4, 0, 1, 3]


def _patient(max_new_tokens: int = 9) -> GenerationRequest:
    return generation_request([7, EOS], max_new_tokens, yields_to_new=True)


def test_the_patient_stand_aside_where_another_gets_its_first_token() -> None:
    scheduler = _scheduler(slots=10)
    scheduler.add(1, _patient())
    scheduler.add(2, _request())
    assert _stepped(scheduler) == [1, 2], "what is admitted goes on"
    scheduler.add(3, _patient())
    assert _stepped(scheduler) == [1, 2, 3]
    scheduler.add(4, _request())
    assert _stepped(scheduler) == [2, 4], "so does who has begun"
    assert _stepped(scheduler) == [1, 2, 3, 4]


def test_but_never_twice_in_a_row() -> None:
    scheduler = _scheduler(slots=10)
    scheduler.add(0, _patient())
    _step(scheduler)
    steps = []
    for request_id in range(1, 5):
        scheduler.add(request_id, _request(max_new_tokens=1))
        steps.append(_stepped(scheduler))
    assert steps == [[1], [0, 2], [3], [0, 4]]


def test_a_failed_step_ends_its_requests() -> None:
    scheduler = _scheduler(slots=1)
    scheduler.add(1, _request())
    scheduler.add(2, _request())
    plan = scheduler.schedule()
    assert scheduler.fail(plan) == [1]
    assert _ids(scheduler, scheduler.schedule()) == [2]


@pytest.mark.parametrize(
    ("fails", "results", "is_a_bug"),
    [
        (1, [(5, 7)], True),  # of a hypothesis that a beam does not have
        (1, [(0, 4), (0, 4)], False),  # what was reported before is not found again
        (2, [], True),
    ],
)
def test_a_request_whose_writer_fails_ends_alone(
    caplog: pytest.LogCaptureFixture, fails: int, results: list[tuple[int, int]], is_a_bug: bool
) -> None:
    scheduler = _scheduler(slots=4)
    scheduler.add(1, changed(_request(beam=2), sent_ids=[] if is_a_bug else [9]))
    scheduler.add(2, changed(_request(), candidates=1))
    plan = scheduler.schedule()
    given = {1: [(0, 5), (0, 6)], 2: [(0, 7)]} | {fails: results}
    steps = [[[Extension(parent, Choice(token, -0.1), -0.1) for parent, token in own]] for own in given.values()]
    reports, _, failed = scheduler.update(plan, steps)
    [other] = {1, 2} - {fails}
    assert failed == [fails]
    assert [report.request_id for report in reports] == [other] * (other == 2)
    assert scheduler.slots_used == 1 + (other == 1)
    assert _ids(scheduler, scheduler.schedule()) == [other]
    assert ("failed on the results of a step" in caplog.text) == is_a_bug


@given(
    slots=st.integers(1, 4),
    max_prefill=st.integers(1, 3),
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 12)),
            st.tuples(st.just("cancel"), st.integers(0, 30)),
            st.tuples(st.just("step"), st.integers(2, 4)),
        ),
        max_size=60,
    ),
)
def test_random_histories(slots: int, max_prefill: int, actions: list[tuple[str, int]]) -> None:
    """No slot is used twice, nobody overtakes, and every request ends exactly once."""
    scheduler = _scheduler(slots, max_prefill)
    added: list[int] = []
    admitted: list[int] = []
    ended: list[int] = []
    cancelled: set[int] = set()
    drain = [("step", 3)] * 400
    for action, value in [*actions, *drain]:
        if action == "add":
            scheduler.add(len(added), _request(max_new_tokens=1 + value % 6, beam=min(slots, 1 + value // 6)))
            added.append(len(added))
        elif action == "cancel":
            scheduler.cancel(value)
            cancelled |= {value} & {*added} - {*ended}
        elif action == "step":
            plan, reports = _step(scheduler, token=value)
            used = [*plan.plain, *(slot for running in plan.running for slot in running.slots)]
            assert len(set(used)) == len(used) <= slots
            assert all(0 <= slot < slots for slot in used)
            assert len(plan.admitted) <= max_prefill
            assert not cancelled & set(_ids(scheduler, plan))
            admitted += [running.request_id for running in plan.admitted]
            ended += [report.request_id for report in reports if report.finish_reason]
    assert admitted == sorted(admitted)
    assert sorted(ended) == sorted(set(added) - cancelled)
    assert not scheduler.has_work
