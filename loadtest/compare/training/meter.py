"""What a turn comes to: tokens, seconds and losses of its steps. Both sides are measured by this and nothing else."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from loadtest.compare.training.work import WARM_UP
from model.training.trainer import Batch


@dataclass(frozen=True, slots=True)
class Trained:
    """What came of a turn. `tokens` and `padded_tokens` are of each counted step, `losses` of every step."""

    parameters: int
    tokens: list[int]
    padded_tokens: list[int]
    seconds: float
    cpu_seconds: float
    losses: list[float]
    dropout: bool

    @property
    def tokens_per_second(self) -> float:
        return sum(self.tokens) / self.seconds

    @property
    def tokens_per_cpu_second(self) -> float:
        """Hardly swayed by what else the machine does."""
        return sum(self.tokens) / self.cpu_seconds


@dataclass(slots=True)
class Meter:
    """Told of every step of a turn: its batch before, its loss and its end after."""

    pad_id: int
    tokens: list[int] = field(default_factory=list)
    padded_tokens: list[int] = field(default_factory=list)
    losses: list[float | Tensor] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    cpu_ends: list[float] = field(default_factory=list)

    def batch(self, batch: Batch) -> None:
        self.tokens.append(real_tokens(batch, self.pad_id))
        self.padded_tokens.append(sum(ids.numel() for ids in batch))

    def step_done(self) -> None:
        self.ends.append(time.perf_counter())
        self.cpu_ends.append(time.process_time())

    def trained(self, model: torch.nn.Module, forward: Callable[[], Tensor]) -> Trained:
        """`forward` gives logits, and gives others the next time if, and only if, there is dropout."""
        assert len(self.ends) == len(self.tokens) == len(self.losses) > WARM_UP
        with torch.no_grad():
            dropout = not torch.equal(forward(), forward())
        return Trained(
            parameters=sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
            tokens=self.tokens[WARM_UP:],
            padded_tokens=self.padded_tokens[WARM_UP:],
            seconds=self.ends[-1] - self.ends[WARM_UP - 1],
            cpu_seconds=self.cpu_ends[-1] - self.cpu_ends[WARM_UP - 1],
            losses=[float(loss) for loss in self.losses],
            dropout=dropout,
        )


def real_tokens(batch: Batch, pad_id: int) -> int:
    """Source and target tokens, end of sentence included, padding not."""
    return sum(int((ids != pad_id).sum()) for ids in batch)
