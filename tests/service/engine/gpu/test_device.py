"""The executor of the device under test: what is replayed, and when copies are made."""

import pytest
import torch

from service.engine.gpu.device import Executor, executor_of


@pytest.fixture
def executor(device: torch.device) -> Executor:
    return executor_of(device)


def test_a_replay_works_on_what_is_there_now(executor: Executor, device: torch.device) -> None:
    given, result = torch.ones(3, device=device), torch.zeros(3, device=device)
    step = executor.capture(lambda: result.copy_(given * 2))
    given.copy_(executor.upload(torch.tensor([1.0, 5.0, 7.0])))
    step.replay()
    [arrived] = executor.download(result).wait()
    assert arrived.tolist() == [2.0, 10.0, 14.0]


def test_steps_go_on_from_one_another(executor: Executor, device: torch.device) -> None:
    count = torch.zeros(1, device=device)
    step = executor.capture(lambda: count.add_(1))
    count.zero_()
    arriving = []
    for _ in range(3):
        step.replay()
        arriving.append(executor.download(count))
    assert [each.wait()[0].item() for each in arriving] == [1.0, 2.0, 3.0]
