"""The command `dragoman doctor`: reports what would run here, and tries it out."""

import asyncio
import platform
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from model.checkpoint_config import CheckpointError
from service.api.context import ServiceContext
from service.errors import EngineFailed, ServiceError
from service.observability import tracing
from service.process.hardware import usable_cores
from service.registry.model_version import State
from service.server.composition import VERSION, build_service
from service.settings import Settings, UnusableSettingError, unknown_variables
from service.translation.events import Finished
from service.translation.options import TranslationOptions

_HIDDEN: Final = "***"
_CPU_INFO: Final = Path("/proc/cpuinfo")
_CPU_NAMES: Final = ("model name", "Model", "Hardware")
_SENTENCES: Final = (
    "Where is the station?",
    "I have lost my key.",
    "The cat sat on the mat.",
    "It has been raining since this morning, so we stayed at home.",
    "Could you tell me how much this costs?",
)
_AT_ONCE: Final = 16
_START_SECONDS: Final = 600.0
"""The first start compiles the C++ operators."""


class Processor(msgspec.Struct):
    """The processor of this machine."""

    name: str
    cores: int
    """Cores that this process may use, as the settings count them."""
    operators: str | None
    """Instruction set of the compiled C++ operators; None without them."""


class Model(msgspec.Struct):
    """A model and its state after the self-test."""

    name: str
    state: str
    reason: str | None
    directions: list[str]
    max_sentence_tokens: int | None = None


class Speed(msgspec.Struct):
    """The speed of `at_once` concurrent translations."""

    at_once: int
    tokens_per_second: float
    first_token_milliseconds: float
    """Median."""


class Report(msgspec.Struct):
    """The findings of the examination."""

    version: str
    python: str
    pytorch: str
    processor: Processor
    gpus: list[str]
    settings: dict[str, Any]
    """All settings, without secrets."""
    given: list[str]
    """Names of the settings that differ from their defaults."""
    models: list[Model] = []
    speeds: list[Speed] = []
    notes: list[str] = []
    problems: list[str] = []
    """Reasons why a server with these settings would not work."""


def examine(settings: Settings, seconds: float) -> Report:
    """Examine the machine and the settings, and translate for this many seconds."""
    import torch

    report = Report(
        version=VERSION,
        python=platform.python_version(),
        pytorch=str(torch.__version__),
        processor=_processor(),
        gpus=[torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        settings=visible_settings(settings),
        given=sorted(settings.model_fields_set),
    )
    if report.processor.operators is None and settings.device == "cpu":
        from model.kernels.compiler import ADVICE

        report.notes.append(f"no C++ operators, which makes translation 6 to 14 times slower: {ADVICE}")
    report.notes += _unused_cores(settings, report.processor.cores)
    report.notes += unknown_variables()
    try:
        if settings.traces:
            tracing.provider(VERSION).shutdown()
        # The speed to report is that of the engines.
        service = build_service(settings.model_copy(update={"log_level": "error", "cache_mb": 0}))
    except (CheckpointError, UnusableSettingError) as error:
        report.problems.append(str(error))
    else:
        asyncio.run(_self_test(service, min(_AT_ONCE, settings.slots * settings.replicas), seconds, report))
    return report


def _unused_cores(settings: Settings, cores: int) -> list[str]:
    used = settings.replicas * settings.threads
    # One more is for the HTTP process.
    if settings.device != "cpu" or used + 1 >= cores:
        return []
    most = (cores - 1) // settings.threads
    if most <= settings.replicas:
        return []  # the other cores are too few for the threads of one more engine
    return [
        f"engines use {used} of {cores} cores: with a small model the HTTP process is the limit; for a large one set "
        f"--replicas {most}"
    ]


def _processor() -> Processor:
    from model import kernels
    from model.kernels import library

    lines = _CPU_INFO.read_text(encoding="utf-8").splitlines() if _CPU_INFO.exists() else []
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    name = next((facts[each] for each in _CPU_NAMES if each in facts), platform.processor() or platform.machine())
    available = library.variants() if kernels.load() else []
    return Processor(name, usable_cores(), next(iter(available), None))


def visible_settings(settings: Settings) -> dict[str, Any]:
    """Return all settings; the address of Redis may hold passwords."""
    visible = settings.model_dump(mode="json")
    return visible if settings.redis_url is None else visible | {"redis_url": _HIDDEN}


async def _self_test(service: ServiceContext, most_at_once: int, seconds: float, report: Report) -> None:
    service.library.start()
    try:
        async with asyncio.timeout(_START_SECONDS):
            with suppress(EngineFailed):  # the entry of each model has the reason
                await service.library.wait_until_tried()
        for number in sorted({1, most_at_once}) if service.library.started else ():
            report.speeds.append(await _speed(service, number, seconds / 2))
    except TimeoutError:
        report.problems.append(f"the engines were not ready after {_START_SECONDS:.0f} s")
    except ServiceError as error:
        report.problems.append(f"a translation failed: {error.message}")
    finally:
        await service.library.stop()
        report.problems += await service.access.problems()
        await service.access.aclose()
    for entry in service.library.versions:
        limit = entry.model.max_sentence_tokens if entry.model else None
        report.models.append(
            Model(entry.name, entry.state, entry.reason, entry.model.summary() if entry.model else [], limit)
        )
        if entry.state is State.FAILED:
            report.problems.append(f"{entry.name}: {entry.reason}")


async def _speed(service: ServiceContext, at_once: int, seconds: float) -> Speed:
    started = time.monotonic()
    finished: list[Finished] = []

    async def translate_on(number: int) -> None:
        while time.monotonic() < started + seconds:
            finished.append(await _translated(service, _SENTENCES[(number + len(finished)) % len(_SENTENCES)]))

    await asyncio.gather(*(translate_on(number) for number in range(at_once)))
    elapsed = time.monotonic() - started
    tokens = sum(each.usage.generated_tokens for each in finished)
    waits = [each.timings.time_to_first_token_seconds for each in finished]
    return Speed(at_once, round(tokens / elapsed, 1), round(1000 * statistics.median(waits), 2))


async def _translated(service: ServiceContext, text: str) -> Finished:
    source, target = service.translator.directions[0].codes()
    translation = service.translator.start([text], source, target, TranslationOptions())
    try:
        return await translation.finished()
    finally:
        translation.close()


def lines(report: Report) -> list[str]:
    """Render the report for people."""
    processor, settings = report.processor, report.settings
    operators = f"C++, for {processor.operators}" if processor.operators else "PyTorch's"
    rows = [
        ("version", f"Dragoman {report.version}, Python {report.python}, PyTorch {report.pytorch}"),
        ("processor", f"{processor.name}, {_counted(processor.cores, 'core')}"),
        ("operators", operators),
        ("GPU", ", ".join(report.gpus) or "none"),
        (
            "engines",
            f"{settings['mode']} on {settings['device']}, {_counted(settings['replicas'], 'replica')} with "
            f"{_counted(settings['threads'], 'thread')} each, {settings['slots']} slots each, "
            f"{settings['max_waiting']} segments may wait",
        ),
        ("settings", ", ".join(f"{name}={settings[name]}" for name in report.given) or "defaults"),
        *(("model", _model_line(model)) for model in report.models),
        *(("self-test", _speed_line(speed)) for speed in report.speeds),
        *(("note", note) for note in report.notes),
    ]
    return [f"{name:10} {text}" for name, text in rows]


def _model_line(model: Model) -> str:
    if model.state != State.READY:
        return f"{model.name}: {model.state}"
    return f"{model.name}: {_some(model.directions)}; sentences of up to {model.max_sentence_tokens} tokens"


def _some(directions: Sequence[str], most: int = 6) -> str:
    left = len(directions) - most
    return ", ".join(directions[:most]) + (f" and {left} more" if left > 0 else "")


def _speed_line(speed: Speed) -> str:
    at_once = "one at a time" if speed.at_once == 1 else f"{speed.at_once} at once"
    rate, wait = speed.tokens_per_second, speed.first_token_milliseconds
    return f"{at_once}: {rate:,.0f} tokens/s, first token after {wait:.1f} ms"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
