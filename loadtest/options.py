"""What options of a request cost an engine: `python -m loadtest.options --help`.

An engine's loop in this process, which is given as many requests as it has room for. Its processor time counts: that
says the same on a busy machine, or nearly.
"""

import json
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import torch
import typer
from msgspec.structs import replace

from loadtest.sentences import SENTENCES
from model.checkpoint import load_model
from model.manifest import load_config, load_tokenizer
from service.engine.channel import frame
from service.engine.loop import EngineLoop
from service.engine.modes import MODES
from service.engine.request import Command, GenerationRequest, Report, StepReport, Submit
from service.engine.scheduler import Scheduler
from service.schemas import TranslateRequest
from service.settings import EMBEDDED_MODEL, Settings
from service.translation import MAX_BEAM_SIZE, TranslationOptions

_KINDS: Final = (
    "{}",
    '{"temperature": 1}',
    '{"temperature": 1, "top_k": 40}',
    '{"temperature": 1, "top_p": 0.9}',
    '{"repetition_penalty": 1.2}',
    '{"no_repeat_ngram_size": 3}',
    '{"top_candidates": 5}',
    '{"beam_size": 4}',
)
_MOST_TOKENS: Final = 200


def main(
    options: Annotated[list[str] | None, typer.Option(help="Fields of a request, as JSON; again for more.")] = None,
    model: Annotated[Path, typer.Option(help="A checkpoint of ours.")] = EMBEDDED_MODEL,
    mode: Annotated[str, typer.Option(help="Of the engine, on the CPU.")] = "int8",
    slots: Annotated[int, typer.Option(min=1, help="Rows of the batch: a beam is as many as it is wide.")] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each kind of request, which take turns.")] = 5,
    requests: Annotated[int, typer.Option(min=1, help="Of one sentence each, in a run.")] = 256,
) -> None:
    """Generated tokens per processor second with each kind of request, and the share of the first kind's: medians."""
    kinds = [json.loads(kind) for kind in options or _KINDS]
    torch.set_num_threads(1)
    config = load_config(model)
    direction = config.all_directions()[0]
    sources = load_tokenizer(model).encode_batch(list(SENTENCES), direction.target, direction.source)
    built = MODES[mode]
    runner = built.build_runner(load_model(model, built.dtype), slots, config.model.max_positions)
    # Constructed, since settings would otherwise read this shell's environment.
    prefill = Settings.model_construct(device="cpu").max_prefill
    speeds: list[list[float]] = [[] for _ in kinds]
    for number in range(rounds + 1):
        chosen = random.Random(number).choices(sources, k=requests)
        for kind, each in zip(kinds, speeds, strict=True):
            client = _Client(_requests(kind, chosen), slots)
            scheduler = Scheduler(slots=slots, max_prefill=prefill, eos_id=config.model.eos_id)
            started = time.process_time()
            EngineLoop(scheduler, runner, client, config.model.bos_id).run()
            if number:  # the first is not counted
                each.append(client.tokens / (time.process_time() - started))
    first = statistics.median(speeds[0])
    for kind, each in zip(kinds, speeds, strict=True):
        median = statistics.median(each)
        figures = {"median": round(median), "lowest": round(min(each)), "highest": round(max(each))}
        typer.echo(json.dumps({"options": kind, "tokens_per_second": figures, "share": round(median / first, 2)}))


def _requests(fields: dict[str, Any], sources: Sequence[list[int]]) -> list[GenerationRequest]:
    options: TranslationOptions = TranslateRequest(q="", source="en", target="fr", **fields).options(MAX_BEAM_SIZE)
    return [
        GenerationRequest(
            source,
            _MOST_TOKENS,
            replace(options.sampling, seed=seed),
            options.beam,
            options.constraints,
            top_candidates=options.top_candidates,
            alignment=options.alignment,
            attention=options.attention,
        )
        for seed, source in enumerate(sources)
    ]


class _Client:
    """The other end of an engine's channel: keeps its slots full as long as there are requests, and counts."""

    def __init__(self, requests: Sequence[GenerationRequest], slots: int) -> None:
        self.tokens = 0
        self._waiting = list(enumerate(requests))
        self._free = slots
        self._width = requests[0].beam.size

    def receive(self, *, wait: bool) -> list[Command] | None:
        commands: list[Command] = []
        while self._waiting and self._free >= self._width:
            number, request = self._waiting.pop()
            commands.append(Submit(number, request, time.monotonic()))
            self._free -= self._width
        return None if wait and not commands else commands

    def send(self, report: Report) -> None:
        assert isinstance(report, StepReport)
        frame(report)  # as it is sent otherwise
        self.tokens += len(report.tokens)
        self._free += self._width * sum(token.finish_reason is not None for token in report.tokens)


if __name__ == "__main__":
    typer.run(main)
