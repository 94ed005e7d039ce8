"""An engine without a process: the real loop, scheduler and runner over a small random model."""

import random
from typing import Protocol

import torch

from model.attention import attention_weights, look_ahead_mask, padding_mask
from model.cache import KV
from model.config import ModelConfig
from model.recurrence import scan
from model.transformer import Transformer
from service.engine.gpu.cuda_graph_runner import CudaGraphRunner
from service.engine.loop import EngineLoop
from service.engine.messages import Admitted, Command, Report, StepReport, TokenReport
from service.engine.runner import EagerRunner, Runner
from service.engine.scheduler import Scheduler
from tests.generation_requests import all_tokens

EOS = 25  # a token that this random model likes to write, so that rows end at different times
MAX_LENGTH = 64


class Arrivals:
    """A channel that hands out commands at random moments and collects what comes back."""

    def __init__(self, commands: list[Command], seed: int) -> None:
        self._commands = commands
        self._random = random.Random(seed)
        self.tokens: dict[int, list[int]] = {}
        self.logprobs: dict[int, list[float]] = {}
        self.reports: dict[int, list[TokenReport]] = {}
        self.moments: dict[int, list[int]] = {}
        """The number of the step that reported each token."""
        self.slots_used: list[int] = []

    def receive(self, *, wait: bool) -> list[Command] | None:
        if wait and not self._commands:
            return None
        count = self._random.randint(1 if wait else 0, 3)
        now, self._commands = self._commands[:count], self._commands[count:]
        return now

    def send(self, report: Report) -> None:
        if isinstance(report, Admitted):
            return
        assert isinstance(report, StepReport)
        assert not report.failed
        self.slots_used.append(report.stats.slots_used)
        for token in all_tokens(report):
            self.moments.setdefault(token.request_id, []).append(len(self.slots_used))
            self.reports.setdefault(token.request_id, []).append(token)
            self.tokens.setdefault(token.request_id, []).append(token.token_id)
            self.logprobs.setdefault(token.request_id, []).append(token.logprob)


def sources(count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, 20, (count,), generator=generator).tolist()
    return [[*torch.randint(30, 97, (length,), generator=generator).tolist(), EOS] for length in lengths]


class Run(Protocol):
    """Runs the commands with one of the runners, over `random_model(config)`."""

    def __call__(self, config: ModelConfig, commands: list[Command], *, slots: int, seed: int) -> Arrivals: ...


def run_with(runner: Runner, config: ModelConfig, commands: list[Command], *, slots: int, seed: int) -> Arrivals:
    arrivals = Arrivals(commands, seed)
    scheduler = Scheduler(
        slots=slots,
        max_prefill=3,
        bos_id=config.bos_id,
        eos_id=config.eos_id,
        is_recurrent=config.decoder_memory == "ssru",
    )
    EngineLoop(scheduler, runner, arrivals).run()
    return arrivals


def captured(model: Transformer, slots: int) -> CudaGraphRunner:
    return CudaGraphRunner(model, slots=slots, max_length=MAX_LENGTH)


def eager(model: Transformer, slots: int) -> EagerRunner:
    return EagerRunner(model, slots=slots, max_length=MAX_LENGTH)


def logprobs_of(model: Transformer, source: list[int], ids: list[int]) -> torch.Tensor:
    """`[len(ids), vocab]` at the place of each of `ids`; unlike `forward`, takes none of them for padding."""
    return _full_pass(model, source, ids)[0]


def alignment_of(model: Transformer, source: list[int], ids: list[int]) -> torch.Tensor:
    """`[len(ids), len(source)]`: what the last layer's heads look at on average, to write each of `ids`."""
    return _full_pass(model, source, ids)[1]


def self_attention_of(model: Transformer, source: list[int], ids: list[int]) -> torch.Tensor:
    """`[layers, len(ids), len(ids)]`: what each layer's heads look at on average, of bos and `ids`."""
    return _full_pass(model, source, ids)[2]


@torch.inference_mode()
def _full_pass(
    model: Transformer, source: list[int], ids: list[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    length = torch.tensor([len(source)])
    inputs, positions = torch.tensor([[model.config.bos_id, *ids[:-1]]]), torch.arange(len(ids))[None]
    source_mask, mask = padding_mask(length, len(source)), look_ahead_mask(positions, len(ids))
    *encoded, last = map(_Watched, model.encode(torch.tensor([source]), source_mask))
    cache = _WatchedCache()
    logits = model.decode(inputs, positions, mask, [*encoded, last], source_mask, cache)
    own = [layer.weights[0].mean(dim=0) for layer in cache.layers]
    weights = torch.stack(own) if own else torch.empty(0, len(ids), len(ids))
    return logits[0].log_softmax(-1), last.weights[0].mean(dim=0), weights


class _WatchedCache:
    """All positions are in the call, and the attention over them can be looked at afterwards."""

    def __init__(self) -> None:
        self.layers: list[_Watched] = []

    def update(self, layer: int, new: KV) -> "_Watched":
        self.layers.append(_Watched(new))
        return self.layers[-1]

    def recur(self, layer: int, keep: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return scan(keep, new)


class _Watched:
    """K/V whose attention can be looked at afterwards."""

    def __init__(self, kv: KV) -> None:
        self._kv = kv
        self.weights = torch.empty(0)

    def attend(self, query: torch.Tensor, mask: torch.Tensor | None, dropout: float) -> torch.Tensor:
        assert mask is not None
        self.weights = attention_weights(query, self._kv.keys, mask)
        return self._kv.attend(query, mask, dropout)
