"""Download of public models while the server runs, by `dragoman pull` in a process of its own.

So the server needs no HTTP client, and a hanging download can be ended with its process. That process reads the
addresses of the indexes from the environment, as the server does.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from model.checkpoint_config import Direction
from service.hub.errors import HubError, TemporaryHubError
from service.hub.names import HubIndex, HubName, HubOptions, parse_name
from service.hub.progress import Report
from service.process.interpreter import python_command, run_command

logger = logging.getLogger(__name__)

_LIST_SECONDS: Final = 120.0


async def pull_in_background(name: HubName, options: HubOptions, on_report: Callable[[Report], None]) -> Path:
    """Return the checkpoint of a public model, pulling it if it is not here; `on_report` gets its progress.

    Raises `HubError`; its subclass `TemporaryHubError` if another attempt may succeed.
    """
    flags = ["--if-missing", "--json", *(["--offline"] if options.offline else [])]
    command = python_command("-m", "service", "pull", str(name), *flags)
    logger.info("model is pulled", extra={"model": str(name)})
    # On a terminal the process draws its bar there itself.
    stderr = None if sys.stderr.isatty() else asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=stderr
    )
    try:
        last, printed = await asyncio.gather(_last_report(process, on_report), _standard_error(process))
        status = await process.wait()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if last is not None and last.path is not None:
        return Path(last.path)
    if last is not None and last.error is not None:
        reason = last.error.removeprefix(f"{name}: ")  # here the name stands beside the reason
        raise (TemporaryHubError if last.temporary else HubError)(reason)
    logger.error("a download ended with %d: %s", status, printed)
    raise TemporaryHubError(f"{name}: its download ended with {status}; the log says more")


async def list_in_background(index: HubIndex) -> Mapping[HubName, Sequence[Direction]]:
    """Return the models of an index, each without its revision, with their directions. Raises `TemporaryHubError`."""
    command = python_command("-m", "service", "models", "--available", index.source, "--json")
    try:
        done = await run_command(command, _LIST_SECONDS)
    except TimeoutError:
        raise TemporaryHubError(f"{index} cannot be listed: no end after {_LIST_SECONDS:.0f} s") from None
    if done.status:
        reason = done.stderr.decode(errors="replace").strip().removeprefix("dragoman: ")
        raise TemporaryHubError(reason or f"{index} cannot be listed: the process ended with {done.status}")
    rows = msgspec.json.decode(done.stdout, type=list[_Row])
    return {
        parse_name(row.name).unpinned: [Direction(source=one, target=other) for one, other in row.directions]
        for row in rows
    }


class _Row(msgspec.Struct):
    """The used part of a line that `dragoman models --json` prints."""

    name: str
    directions: list[tuple[str, str]]


async def _last_report(process: asyncio.subprocess.Process, on_report: Callable[[Report], None]) -> Report | None:
    """Pass on progress; return the last line."""
    assert process.stdout is not None
    report = None
    async for line in process.stdout:
        report = msgspec.json.decode(line, type=Report)
        on_report(report)
    return report


async def _standard_error(process: asyncio.subprocess.Process) -> str:
    """Return the end of what the process wrote to standard error."""
    return "" if process.stderr is None else (await process.stderr.read()).decode(errors="replace")[-2000:].strip()
