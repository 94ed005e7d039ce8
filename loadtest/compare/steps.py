"""Where an engine's processor time goes: `python -m loadtest.compare.steps --help`.

An engine's loop in this process, with the weights and requests of `dragoman bench`.
"""

import itertools
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import torch
import typer

from loadtest.compare.weights import save_random_checkpoint
from loadtest.compare.workload import MOST_TOKENS, SHAPES, Request, make_requests, request_count
from model.checkpoint import load_model
from model.checkpoint_config import load_config
from model.config import ModelConfig
from service.engine.channel import frame
from service.engine.loop import EngineLoop
from service.engine.messages import Command, GenerationRequest, Prompt, Report, Search, StepReport, Submit
from service.engine.modes import MODES
from service.engine.runner import Runner
from service.engine.scheduler import Scheduler
from service.settings import EMBEDDED_MODEL, Settings

_MICROSECONDS: Final = 1e6


def main(
    shape: Annotated[Literal["base", "default"], typer.Option(help="As in `dragoman bench`.")] = "default",
    in_flight: Annotated[int, typer.Option(min=1, help="Requests of this one engine, at any time.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, help="Of which the medians are told.")] = 9,
    batches: Annotated[int, typer.Option(min=1, help="Requests of a round, in multiples of those in flight.")] = 8,
) -> None:
    """Microseconds of processor time per generated token, by part of the engine's step."""
    torch.set_num_threads(1)
    config = SHAPES["base"] if shape == "base" else load_config(EMBEDDED_MODEL).model
    slots = max(in_flight, Settings.model_construct().slots)
    with tempfile.TemporaryDirectory() as directory:
        save_random_checkpoint(Path(directory), config)
        mode = MODES["int8"]
        runner = mode.build_runner(load_model(Path(directory), mode.dtype), slots, config.max_positions)
    measured = [
        _round(runner, config, slots, in_flight, make_requests(request_count(in_flight, batches), config, seed))
        for seed in range(rounds + 1)
    ][1:]  # the first pays for what is done once
    typer.echo(json.dumps({part: round(statistics.median(each[part] for each in measured), 2) for part in measured[0]}))


def _round(
    runner: Runner, config: ModelConfig, slots: int, in_flight: int, requests: Sequence[Request]
) -> dict[str, float]:
    spent: defaultdict[str, float] = defaultdict(float)
    client = _Client(requests, in_flight)
    prefill = Settings.model_construct(device="cpu").max_prefill
    scheduler: Any = Scheduler(slots=slots, max_prefill=prefill, eos_id=config.eos_id)
    timed_runner = _Timed(runner, spent, {"prefill": "encoder", "decode": "decoder"})
    timed_scheduler: Any = _Timed(scheduler, spent, {"schedule": "schedule", "update": "update"})
    channel = _Timed(client, spent, {"send": "report", "receive": "client"})
    started = time.thread_time()
    EngineLoop(timed_scheduler, timed_runner, channel, config.bos_id).run()
    whole = time.thread_time() - started - spent.pop("client", 0.0)
    spent["rows, batches, choices"] = whole - sum(spent.values())
    parts = {part: _MICROSECONDS * seconds / client.tokens for part, seconds in spent.items()}
    return {**parts, "all": _MICROSECONDS * whole / client.tokens, "tokens per report": client.tokens / client.reports}


class _Timed:
    """Something of which some methods are timed; a part is what each of them counts for."""

    def __init__(self, inner: Any, spent: defaultdict[str, float], parts: dict[str, str]) -> None:
        self._inner = inner
        for method, part in parts.items():
            setattr(self, method, _timed(getattr(inner, method), spent, part))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _timed(function: Callable[..., Any], spent: defaultdict[str, float], part: str) -> Callable[..., Any]:
    def timed(*values: Any, **named: Any) -> Any:
        started = time.thread_time()
        result = function(*values, **named)
        spent[part] += time.thread_time() - started
        return result

    return timed


class _Client:
    """The other end of an engine's channel: keeps so many requests in flight as long as there are some, and counts."""

    def __init__(self, requests: Sequence[Request], in_flight: int) -> None:
        self.tokens = 0
        self.reports = 0
        self._waiting = enumerate(requests)
        self._free = in_flight

    def receive(self, *, wait: bool) -> list[Command] | None:
        new = list(itertools.islice(self._waiting, self._free))
        self._free -= len(new)
        now = time.monotonic()
        commands = [
            Submit(number, GenerationRequest(Prompt(each.source_ids), Search(MOST_TOKENS)), now) for number, each in new
        ]
        return None if wait and not commands else [*commands]

    def send(self, report: Report) -> None:
        assert isinstance(report, StepReport)
        assert not report.failed
        frame(report)  # as it is sent otherwise
        self.reports += 1
        self.tokens += len(report.tokens)
        self._free += sum(token.finish_reason is not None for token in report.tokens)


if __name__ == "__main__":
    typer.run(main)
