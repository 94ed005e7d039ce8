"""Processor time of one engine's loop in this process: `python -m loadtest.bench.engine --help`.

Processor time stays nearly the same on a busy machine. Knows neither HTTP nor other processes.
"""

import itertools
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
from model import kernels
from model.checkpoint import load_model, load_shortlist
from model.checkpoint_config import load_config, load_tokenizer
from model.config import ModelConfig
from model.shortlist import Shortlist
from service.api.translate_request import TranslateRequest
from service.cli.pulling import local_checkpoint
from service.composition import MAX_PREFILL
from service.engine.channel import frame
from service.engine.generation_request import GenerationRequest, Prompt, Search
from service.engine.loop import EngineLoop
from service.engine.messages import Admitted, Command, Report, StepReport, Submit
from service.engine.modes import MODES
from service.engine.runner import Runner
from service.engine.scheduler import Scheduler
from service.errors import InvalidRequest
from service.settings import EMBEDDED_MODEL
from service.translation.options import MAX_BEAM_SIZE

_OPTIONS: Final = (
    "{}",
    '{"temperature": 1}',
    '{"temperature": 1, "top_k": 40}',
    '{"temperature": 1, "top_p": 0.9}',
    '{"repetition_penalty": 1.2}',
    '{"no_repeat_ngram_size": 3}',
    '{"top_candidates": 5}',
    '{"beam_size": 4}',
)
_MEASURED_FIELDS: Final = frozenset(
    "temperature top_k top_p beam_size length_penalty alternatives repetition_penalty no_repeat_ngram_size "
    "top_candidates alignment attention self_attention hypotheses max_new_tokens".split()
)
"""Fields that cost the engine something by themselves; the other fields are the HTTP process's or a text's."""
_LONGEST_TRANSLATION: Final = 200


class EngineClient:
    """The other end of an engine's channel: keeps `slots` full as long as there are requests, and counts."""

    def __init__(self, requests: Sequence[GenerationRequest], slots: int) -> None:
        self.tokens = 0
        self._waiting = enumerate(requests)
        self._width = requests[0].search.beam.size
        self._free = slots // self._width

    def receive(self, *, wait: bool) -> list[Command] | None:
        new = list(itertools.islice(self._waiting, self._free))
        self._free -= len(new)
        now = time.monotonic()
        commands: list[Command] = [Submit(number, request, now) for number, request in new]
        return None if wait and not commands else commands

    def send(self, report: Report) -> None:
        frame(report)  # the engine process frames every report, too
        if isinstance(report, Admitted):
            return
        assert isinstance(report, StepReport)
        if report.failed:
            raise RuntimeError(f"{len(report.failed)} requests failed: no figure would be right")
        self.tokens += len(report.tokens) + report.block.tokens
        ended = sum(token.finish_reason is not None for token in report.tokens)
        self._free += ended + len(report.block.ends) - report.block.ends.count(0)


def main(  # noqa: PLR0913  each is an option of the command
    options: Annotated[list[str] | None, typer.Option(help="Fields of a request, as JSON; repeatable.")] = None,
    model: Annotated[
        Path, typer.Option(help="A checkpoint in Dragoman's format, or a public model's name.", parser=local_checkpoint)
    ] = EMBEDDED_MODEL,
    mode: Annotated[str, typer.Option(help="The engine's mode, on the CPU.")] = "int8",
    slots: Annotated[
        int, typer.Option(min=1, help="Rows of the batch; a beam takes one row for each hypothesis.")
    ] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each kind of request; the kinds take turns.")] = 5,
    requests: Annotated[int, typer.Option(min=1, help="Requests of one sentence each in a run.")] = 256,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Run each kind a second time, with the model's lexical shortlist.")
    ] = False,
    cpu_variant: Annotated[str, typer.Option(help="As in `python -m loadtest.bench`.")] = "auto",
) -> None:
    """Print the generated tokens per processor second of each kind of request, and their share of the first kind's."""
    _choose(cpu_variant)
    kinds = [json.loads(kind) for kind in options or _OPTIONS]
    config = load_config(model)
    direction, tokenizer = config.all_directions()[0], load_tokenizer(model)
    sources = tokenizer.encode_batch(list(SENTENCES), direction.target, direction.source)
    prompt = list(tokenizer.target_prefix(direction.target, direction.source))
    if max(map(len, sources)) > config.model.max_positions:
        raise typer.BadParameter(f"{model} has no room for the longest of the sentences", param_hint="--model")
    patterns = [_pattern(kind, prompt, config.model.max_positions - len(prompt), slots) for kind in kinds]
    runners = {False: _build_runner(model, mode, slots, config.model)}
    if shortlist:
        runners[True] = _build_runner(model, mode, slots, config.model, _shortlist(model))
    contenders = list(itertools.product(range(len(kinds)), runners))
    speeds: list[list[float]] = [[] for _ in contenders]
    for number in range(rounds + 1):
        chosen = random.Random(number).choices(sources, k=requests)
        for (kind, restricts), each in zip(contenders, speeds, strict=True):
            client = EngineClient(_requests(patterns[kind], chosen), slots)
            started = time.process_time()
            EngineLoop(_scheduler(slots, config.model), runners[restricts], client).run()
            each.append(client.tokens / (time.process_time() - started))
    first = statistics.median(speeds[0][1:])
    # The first round pays for what is done once.
    for (kind, restricts), (_, *counted) in zip(contenders, speeds, strict=True):
        median = statistics.median(counted)
        figures = {"median": round(median), "lowest": round(min(counted)), "highest": round(max(counted))}
        named = {"options": kinds[kind], **({"shortlist": restricts} if shortlist else {})}
        typer.echo(json.dumps({**named, "tokens_per_second": figures, "share": round(median / first, 2)}))


def _choose(cpu_variant: str) -> None:
    if cpu_variant != "auto":
        try:
            kernels.choose(cpu_variant)
        except RuntimeError as error:
            raise typer.BadParameter(str(error), param_hint="--cpu-variant") from None


def _shortlist(checkpoint: Path) -> Shortlist:
    if (loaded := load_shortlist(checkpoint)) is None:
        raise typer.BadParameter(f"{checkpoint} has none", param_hint="--shortlist")
    return loaded


def _build_runner(
    checkpoint: Path, mode: str, slots: int, config: ModelConfig, shortlist: Shortlist | None = None
) -> Runner:
    torch.set_num_threads(1)
    chosen = MODES[mode]
    return chosen.build_runner(load_model(checkpoint, chosen.dtype), slots, config.max_positions, shortlist)


def _scheduler(slots: int, config: ModelConfig) -> Scheduler:
    return Scheduler(slots=slots, max_prefill=MAX_PREFILL, bos_id=config.bos_id, eos_id=config.eos_id)


def _pattern(fields: dict[str, Any], prompt: list[int], room: int, slots: int) -> GenerationRequest:
    """Build a request of this kind without a source; raises `typer.BadParameter` for what would not be measured."""
    if unmeasured := sorted(fields.keys() - _MEASURED_FIELDS):
        raise typer.BadParameter(f"{', '.join(unmeasured)}: not measured here", param_hint="--options")
    try:
        options = TranslateRequest(q="", source="en", target="fr", **fields).options(MAX_BEAM_SIZE)
    except (ValueError, InvalidRequest) as error:
        raise typer.BadParameter(f"{json.dumps(fields)}: {error}", param_hint="--options") from None
    if options.beam.size > slots:
        raise typer.BadParameter(f"a beam of {options.beam.size} does not fit in {slots}", param_hint="--slots")
    length = options.max_new_tokens or min(_LONGEST_TRANSLATION, room)
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


if __name__ == "__main__":
    typer.run(main)
