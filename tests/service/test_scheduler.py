"""The scheduler by its rules, then under random histories."""

from hypothesis import given
from hypothesis import strategies as st

from service.engine.request import GenerationRequest, TokenReport
from service.engine.scheduler import Plan, Scheduler

EOS = 2


def _scheduler(slots: int = 2, max_prefill: int = 8) -> Scheduler:
    return Scheduler(slots=slots, max_prefill=max_prefill, eos_id=EOS)


def _request(max_new_tokens: int = 5, forced: list[int] | None = None) -> GenerationRequest:
    return GenerationRequest([7, EOS], max_new_tokens, forced_ids=forced or [])


def _step(scheduler: Scheduler, token: int = 9) -> tuple[Plan, list[TokenReport]]:
    plan = scheduler.schedule()
    return plan, scheduler.update(plan, [(token, -0.5)] * len(plan.running))


def _ids(plan: Plan) -> list[int]:
    return [running.request_id for running in plan.running]


def test_first_come_first_served_up_to_the_slots() -> None:
    scheduler = _scheduler(slots=2)
    for request_id in (10, 11, 12):
        scheduler.add(request_id, _request())
    plan, _ = _step(scheduler)
    assert _ids(plan) == [10, 11]
    assert (scheduler.running, scheduler.waiting) == (2, 1)


def test_a_step_encodes_no_more_than_max_prefill() -> None:
    scheduler = _scheduler(slots=10, max_prefill=3)
    for request_id in range(7):
        scheduler.add(request_id, _request())
    admitted = [len(_step(scheduler)[0].admitted) for _ in range(4)]
    assert admitted == [3, 3, 1, 0]


def test_joins_at_the_next_step_and_leaves_at_its_own_last_token() -> None:
    scheduler = _scheduler()
    scheduler.add(1, _request(max_new_tokens=3))
    _step(scheduler)
    scheduler.add(2, _request(max_new_tokens=3))
    assert _ids(_step(scheduler)[0]) == [1, 2]
    _, reports = _step(scheduler)
    assert [(r.request_id, r.finish_reason) for r in reports] == [(1, "length"), (2, None)]
    assert _ids(_step(scheduler)[0]) == [2]
    assert not scheduler.has_work


def test_end_of_sentence_stops() -> None:
    scheduler = _scheduler()
    scheduler.add(1, _request())
    _, reports = _step(scheduler, token=EOS)
    assert reports == [TokenReport(1, EOS, -0.5, "stop")]


def test_a_cancelled_request_frees_its_slot_in_the_next_plan() -> None:
    scheduler = _scheduler(slots=1)
    scheduler.add(1, _request())
    scheduler.add(2, _request())
    _step(scheduler)
    scheduler.cancel(1)
    plan, _ = _step(scheduler)
    assert _ids(plan) == [2]
    assert plan.running[0].slot == 0


def test_cancelling_the_waiting_and_the_unknown() -> None:
    scheduler = _scheduler(slots=1)
    scheduler.add(1, _request())
    scheduler.add(2, _request())
    scheduler.cancel(2)
    scheduler.cancel(99)
    assert scheduler.waiting == 1


def test_forced_tokens_are_replayed_and_not_reported() -> None:
    scheduler = _scheduler()
    scheduler.add(1, _request(max_new_tokens=4, forced=[5, 6]))
    plan = scheduler.schedule()
    assert [running.position for running in plan.running] == [0]
    seen = [scheduler.update(plan, [(9, -0.5)])]
    seen += [_step(scheduler)[1] for _ in range(3)]
    assert [[r.token_id for r in reports] for reports in seen] == [[], [], [9], [9]]
    assert seen[-1][0].finish_reason == "length"


def test_a_failed_step_ends_its_requests() -> None:
    scheduler = _scheduler(slots=1)
    scheduler.add(1, _request())
    scheduler.add(2, _request())
    plan = scheduler.schedule()
    assert scheduler.fail(plan) == [1]
    assert _ids(scheduler.schedule()) == [2]


@given(
    slots=st.integers(1, 4),
    max_prefill=st.integers(1, 3),
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 6)),
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
            scheduler.add(len(added), _request(max_new_tokens=value))
            added.append(len(added))
        elif action == "cancel" and value < len(added) and value not in ended:
            scheduler.cancel(value)
            cancelled.add(value)
        elif action == "step":
            plan, reports = _step(scheduler, token=value)
            used = [running.slot for running in plan.running]
            assert len(set(used)) == len(used) <= slots
            assert all(0 <= slot < slots for slot in used)
            assert len(plan.admitted) <= max_prefill
            assert not cancelled & set(_ids(plan))
            admitted += [running.request_id for running in plan.admitted]
            ended += [report.request_id for report in reports if report.finish_reason]
    assert admitted == sorted(admitted)
    assert sorted(ended) == sorted(set(added) - cancelled)
    assert not scheduler.has_work
