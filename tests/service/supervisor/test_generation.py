"""Reports that the reader of a request gets when its engine dies."""

from service.engine.messages import Beam, BeamReport, LiveHypothesis, SegmentReport, TokenReport
from service.supervisor.generation import Generation
from tests.generation_requests import generation_request

REPORTS: list[SegmentReport] = [
    BeamReport(0, [LiveHypothesis(0, [5], -0.1), LiveHypothesis(0, [6], -0.2)]),
    TokenReport(0, 5, -0.1),
    BeamReport(0, [LiveHypothesis(0, [7], -0.3)]),
    BeamReport(0, [LiveHypothesis(0, [8], -0.4)]),
    TokenReport(0, 7, -0.2),
    TokenReport(0, 2, -0.2, "stop"),
]


def _deliver(generation: Generation, report: SegmentReport) -> None:
    if isinstance(report, TokenReport):
        generation.deliver(report)
    else:
        generation.deliver_beam(report)


async def _received(generation: Generation) -> list[SegmentReport]:
    received: list[SegmentReport] = []
    while reports := await generation.read(deadline=float("inf")):
        received += reports
    return received


async def test_a_search_that_is_begun_again_tells_no_step_twice() -> None:
    for deaths in ([1], [3], [4], [2, 4]):
        generation = Generation(0, generation_request([9, 2], 9, beam=Beam(2), hypotheses=True), lambda _: None)
        sent = 0
        for death in [*deaths, len(REPORTS)]:
            tokens = sent and len(generation.continuation().resume.sent_ids)
            for report in REPORTS[:death]:
                if isinstance(report, TokenReport) and tokens:
                    tokens -= 1  # the engine leaves out what was sent
                else:
                    _deliver(generation, report)
            sent = death
        assert await _received(generation) == REPORTS
