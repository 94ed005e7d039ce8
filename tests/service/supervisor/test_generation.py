"""Reports that the reader of a request gets when its engine dies."""

from service.engine.generation_request import Beam
from service.engine.messages import BeamReport, LiveHypothesis, SegmentReport, TokenReport, TokenRun
from service.supervisor.generation import Generation, Reader
from tests.generation_requests import changed, generation_request

REPORTS: list[SegmentReport] = [
    BeamReport(0, [LiveHypothesis(0, [5], -0.1), LiveHypothesis(0, [6], -0.2)]),
    TokenReport(0, 5, -0.1),
    BeamReport(0, [LiveHypothesis(0, [7], -0.3)]),
    BeamReport(0, [LiveHypothesis(0, [8], -0.4)]),
    TokenReport(0, 7, -0.2),
    TokenReport(0, 2, -0.2, "stop"),
]


def _deliver(generation: Generation, report: SegmentReport) -> None:
    if isinstance(report, BeamReport):
        generation.deliver_beam(report)
    else:
        generation.deliver(report)


async def _received(reader: Reader) -> list[SegmentReport]:
    received: list[SegmentReport] = []
    while reports := await reader.read(deadline=float("inf")):
        received += reports
    return received


async def test_a_search_that_is_begun_again_reports_no_step_twice() -> None:
    for deaths in ([1], [3], [4], [2, 4]):
        generation = Generation(generation_request([9, 2], 9, beam=Beam(2), hypotheses=True))
        reader = generation.add_reader()
        sent = 0
        for death in [*deaths, len(REPORTS)]:
            tokens = sent and len(generation.continuation().resume.sent_ids)
            for report in REPORTS[:death]:
                if isinstance(report, TokenReport) and tokens:
                    tokens -= 1  # the engine leaves out what was sent
                else:
                    _deliver(generation, report)
            sent = death
        assert await _received(reader) == REPORTS


def test_a_request_that_resumed_others_work_is_continued_behind_all_of_it() -> None:
    """Its draft is over with the first new token: what follows was chosen already."""
    request = generation_request([9, 2], 9, forced_ids=[3, 4], sent_ids=[3, 4], draft=[5, 6])
    generation = Generation(request)
    assert generation.continuation() == request
    generation.deliver(TokenRun([5, 7], [-0.2, -0.3]))
    expected = changed(request, forced_ids=[3, 4, 5, 7], sent_ids=[3, 4, 5, 7], draft=[])
    assert generation.continuation() == expected


async def test_runs_are_continued_after_their_last_token() -> None:
    generation = Generation(generation_request([9, 2], 9))
    reader = generation.add_reader()
    generation.deliver(TokenReport(0, 5, -0.1))
    generation.deliver(TokenRun([6, 7], [-0.2, -0.3]))
    assert generation.continuation().constraints.forced_ids == [5, 6, 7]
    finished = [generation.finished]
    generation.deliver(TokenRun([8, 2], [-0.4, -0.5], "stop"))
    assert [*finished, generation.finished] == [False, True]
    expected = [(5, -0.1, None), (6, -0.2, None), (7, -0.3, None), (8, -0.4, None), (2, -0.5, "stop")]
    tokens = await reader.read_tokens(deadline=float("inf"))
    assert [(each.token_id, each.logprob, each.finish_reason) for each in tokens] == expected
    assert await reader.read(deadline=float("inf")) == []
