"""Static batching around a function that stands for an engine."""

import threading
import time
from collections.abc import Sequence

from loadtest.bench.static import Batch, StaticBatching
from loadtest.bench.workload import Request, make_requests
from tests.loadtest.bench.toy import TOY

REQUESTS = make_requests(7, TOY, seed=0)


def test_a_batch_under_way_counts_by_its_time() -> None:
    batch = Batch(0, [Request([], 50), Request([], 30)], started=10.0, ended=14.0)

    assert [batch.tokens_until(moment) for moment in (9.0, 10.0, 11.0, 14.0, 20.0)] == [0.0, 0.0, 20.0, 80.0, 80.0]


def test_the_concurrency_is_shared_out_among_the_workers() -> None:
    taken: list[int] = []
    both_have_one = threading.Barrier(2, timeout=30)

    def translate(batch: Sequence[Request]) -> None:
        taken.append(len(batch))
        if len(taken) <= 2:
            both_have_one.wait()

    StaticBatching(translate, workers=2).closed_loop(REQUESTS * 3, 7)

    assert set(taken[:2]) == {3, 4}
    assert sum(taken) == 21


def test_a_closed_loop_waits_for_the_whole_batch() -> None:
    measured = StaticBatching(lambda batch: time.sleep(0.02 * len(batch)), workers=1).closed_loop(REQUESTS, 3)
    firsts = [answer.first_token_seconds for answer in measured.answers]

    assert len(set(firsts[:3])) == len(set(firsts[3:6])) == 1
    assert min(firsts[:6]) >= 0.06
    assert firsts[6] >= 0.02
    assert not any(answer.gaps for answer in measured.answers)
