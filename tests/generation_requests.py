"""Requests to an engine from flat arguments, so that a test names only the fields that it is about; their tokens."""

from typing import Any, Final

from msgspec.structs import fields, replace

from service.engine.generation_request import GenerationRequest, Prompt, Sampling, Search
from service.engine.messages import StepReport, TokenReport
from service.supervisor.engine_requests import EngineRequests
from service.supervisor.generation import Generation, Reader

_GREEDY: Final = Sampling()


def generation_request(
    source_ids: list[int], max_new_tokens: int, sampling: Sampling = _GREEDY, **changes: Any
) -> GenerationRequest:
    """Return a request with `changes` to its defaults, as in `changed`."""
    return changed(GenerationRequest(Prompt(source_ids), Search(max_new_tokens, sampling)), **changes)


def changed(request: GenerationRequest, **changes: Any) -> GenerationRequest:
    """Return the request with other values of its fields, or of the fields of its groups."""
    own = {each.name for each in fields(request)}
    for name, value in changes.items():
        if name in own:
            request = replace(request, **{name: value})
            continue
        [group] = [each for each in own if hasattr(getattr(request, each), name)]
        request = replace(request, **{group: replace(getattr(request, group), **{name: value})})
    return request


def submitted(requests: EngineRequests, request: GenerationRequest) -> Reader:
    """Hand a new request to one replica, without a pool; return its reader."""
    generation = Generation(request)
    reader = generation.add_reader()
    requests.take(generation)
    return reader


def all_tokens(report: StepReport) -> list[TokenReport]:
    """Return a report for each token of a block, also of plain requests."""
    runs = [each for request_id, run in report.block.runs() for each in run.reports(request_id)]
    return [*report.tokens, *runs]
