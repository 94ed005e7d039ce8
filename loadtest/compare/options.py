"""What options of a request cost an engine: `python -m loadtest.compare.options --help`.

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
from model.checkpoint_config import load_config, load_tokenizer
from service.api.schemas import TranslateRequest
from service.engine.channel import frame
from service.engine.loop import EngineLoop
from service.engine.messages import Command, GenerationRequest, Prompt, Report, Search, StepReport, Submit
from service.engine.modes import MODES
from service.engine.scheduler import Scheduler
from service.errors import InvalidRequest
from service.settings import EMBEDDED_MODEL, Settings
from service.translation.options import MAX_BEAM_SIZE

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
_FIELDS: Final = frozenset(
    {
        "temperature",
        "top_k",
        "top_p",
        "beam_size",
        "length_penalty",
        "alternatives",
        "repetition_penalty",
        "no_repeat_ngram_size",
        "top_candidates",
        "alignment",
        "attention",
        "self_attention",
        "hypotheses",
        "max_new_tokens",
    }
)
"""What costs an engine something by itself; the others are the server's business, or belong to a text."""
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
    direction, tokenizer = config.all_directions()[0], load_tokenizer(model)
    sources = tokenizer.encode_batch(list(SENTENCES), direction.target, direction.source)
    prompt = list(tokenizer.target_prefix(direction.target, direction.source))
    if max(map(len, sources)) > config.model.max_positions:
        raise typer.BadParameter(f"{model} has no room for the longest of the sentences", param_hint="--model")
    patterns = [_pattern(kind, prompt, config.model.max_positions - len(prompt), slots) for kind in kinds]
    built = MODES[mode]
    runner = built.build_runner(load_model(model, built.dtype), slots, config.model.max_positions)
    # Constructed, since settings would otherwise read this shell's environment.
    prefill = Settings.model_construct(device="cpu").max_prefill
    speeds: list[list[float]] = [[] for _ in kinds]
    for number in range(rounds + 1):
        chosen = random.Random(number).choices(sources, k=requests)
        for pattern, each in zip(patterns, speeds, strict=True):
            client = _Client(_requests(pattern, chosen), slots)
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


def _pattern(fields: dict[str, Any], prompt: list[int], room: int, slots: int) -> GenerationRequest:
    """A request of this kind, without a source. Raises `typer.BadParameter` for what would not be measured."""
    if unmeasured := sorted(fields.keys() - _FIELDS):
        raise typer.BadParameter(f"{', '.join(unmeasured)}: not measured here", param_hint="--options")
    try:
        options = TranslateRequest(q="", source="en", target="fr", **fields).options(MAX_BEAM_SIZE)
    except (ValueError, InvalidRequest) as error:
        raise typer.BadParameter(f"{json.dumps(fields)}: {error}", param_hint="--options") from None
    if options.beam.size > slots:
        raise typer.BadParameter(f"a beam of {options.beam.size} does not fit in {slots}", param_hint="--slots")
    length = options.max_new_tokens or min(_MOST_TOKENS, room)
    if length > room:
        raise typer.BadParameter(f"max_new_tokens: the model's limit is {room}", param_hint="--options")
    return GenerationRequest(
        Prompt([], prompt),
        Search(length, options.sampling, options.beam),
        options.constraints,
        inspect=options.inspect,
    )


def _requests(pattern: GenerationRequest, sources: Sequence[list[int]]) -> list[GenerationRequest]:
    return [
        replace(
            pattern,
            prompt=replace(pattern.prompt, source_ids=source),
            search=replace(pattern.search, sampling=replace(pattern.search.sampling, seed=seed)),
        )
        for seed, source in enumerate(sources)
    ]


class _Client:
    """The other end of an engine's channel: keeps its slots full as long as there are requests, and counts."""

    def __init__(self, requests: Sequence[GenerationRequest], slots: int) -> None:
        self.tokens = 0
        self._waiting = list(enumerate(requests))
        self._free = slots
        self._width = requests[0].search.beam.size

    def receive(self, *, wait: bool) -> list[Command] | None:
        commands: list[Command] = []
        while self._waiting and self._free >= self._width:
            number, request = self._waiting.pop()
            commands.append(Submit(number, request, time.monotonic()))
            self._free -= self._width
        return None if wait and not commands else commands

    def send(self, report: Report) -> None:
        assert isinstance(report, StepReport)
        if report.failed:
            raise RuntimeError(f"{len(report.failed)} requests failed: no figure would be right")
        frame(report)  # as it is sent otherwise
        self.tokens += len(report.tokens)
        self._free += self._width * sum(token.finish_reason is not None for token in report.tokens)


if __name__ == "__main__":
    typer.run(main)
