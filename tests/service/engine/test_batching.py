"""The arrays of plain requests, the tensors over them, and the reports of their blocks."""

import math

import msgspec
import torch

from service.engine.batching import PlainTensors, StepScores
from service.engine.generation_request import Sampling
from service.engine.messages import StepReport, StepStats, TokenRun
from service.engine.sequences.plain import PlainTable
from service.engine.sequences.rows import PlainState
from tests.generation_requests import all_tokens, generation_request

BOS, EOS = 1, 2


def _table() -> PlainTable:
    """Slots 1 and 3 have a greedy request at its start and a sampled one in its middle; slot 0 is free."""
    table = PlainTable(4, BOS, EOS)
    table.put(1, 10, generation_request([7, 8, EOS], 5), PlainState(None, 0, 5))
    sampled = generation_request([9, EOS], 6, Sampling(0.5, 4, 0.75, seed=-3))
    table.put(3, 30, sampled, PlainState(44, 7, 2))
    return table


def _scores(tokens: torch.Tensor, logprobs: torch.Tensor, counts: torch.Tensor) -> StepScores:
    return StepScores(tokens, logprobs, torch.empty(0), counts=counts)


def test_the_rows_of_slots() -> None:
    queries, rows = PlainTensors(_table()).queries([1, 3])
    assert torch.stack(queries).tolist() == [[BOS, 44], [0, 7], [1, 3], [1, 3], [3, 2]]
    assert rows.rooms.tolist() == [5, 2]
    assert [each.tolist() for each in rows[1:]] == [[0.0, 0.5], [0, 4], [1.0, 0.75], [0, -3]]
    assert not PlainTensors(_table()).queries([1]).rows.is_sampled


def test_a_block_advances_its_requests_and_reports_all_its_tokens() -> None:
    table = _table()
    tensors = PlainTensors(table)
    tokens = torch.tensor([[50, 60], [51, 61], [52, -1]])
    logprobs = torch.tensor([[-0.5, -1.5], [-0.25, -2.5], [-0.75, math.nan]])
    progress = tensors.advance([1, 3], _scores(tokens, logprobs, torch.tensor([3, 2])))
    assert (progress.ended, progress.failed) == ([3], [])
    assert [*progress.block.runs()] == [
        (10, TokenRun([50, 51, 52], [-0.5, -0.25, -0.75])),
        (30, TokenRun([60, 61], [-1.5, -2.5], "length")),
    ]
    queries, rows = tensors.queries([1])
    assert (queries.tokens.tolist(), queries.positions.tolist(), rows.rooms.tolist()) == ([52], [3], [2])
    last = tensors.advance([1], _scores(torch.tensor([[EOS]]), torch.tensor([[-0.125]]), torch.tensor([1])))
    assert last.ended == [1]
    assert [*last.block.runs()] == [(10, TokenRun([EOS], [-0.125], "stop"))]


def test_an_end_at_the_limit_is_an_end() -> None:
    tokens = torch.tensor([[60], [EOS]])
    progress = PlainTensors(_table()).advance([3], _scores(tokens, tokens * -0.5, torch.tensor([2])))
    assert [run.finish_reason for _, run in progress.block.runs()] == ["stop"]


def test_a_request_without_numbers_fails_alone() -> None:
    tokens = torch.tensor([[50, 60], [51, 61]])
    logprobs = torch.tensor([[-0.5, -0.5], [-0.5, math.nan]])
    progress = PlainTensors(_table()).advance([1, 3], _scores(tokens, logprobs, torch.tensor([2, 2])))
    assert (progress.ended, progress.failed) == ([], [3])
    assert [*progress.block.runs()] == [(10, TokenRun([50, 51], [-0.5, -0.5]))]


def test_a_report_arrives_as_it_was_sent() -> None:
    tokens = torch.tensor([[50, 60], [131_000, EOS]])
    logprobs = torch.tensor([[-0.1, -1e-7], [-1 / 3, -12.5]])
    block = PlainTensors(_table()).advance([1, 3], _scores(tokens, logprobs, torch.tensor([2, 2]))).block
    sent = StepReport([], StepStats(2), block=block)
    received = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=StepReport)
    assert received == sent
    assert [each.logprob for each in all_tokens(received)] == logprobs.T.flatten().tolist()
    assert [each.token_id for each in all_tokens(received)] == [50, 131_000, 60, EOS]
