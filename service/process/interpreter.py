"""The command line of another Python process. Every module that starts one builds its command here."""

import asyncio
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Finished(NamedTuple):
    """The end of a process: its status, and what it wrote."""

    status: int
    stdout: bytes
    stderr: bytes


def python_command(*arguments: str) -> list[str]:
    """Build the command that runs this interpreter with `arguments`.

    `-P` keeps the working directory off the new process' import path: a `service/` or a `torch.py` in the directory
    from which a user starts `dragoman` is never run.
    """
    return [sys.executable, "-P", *arguments]


async def run_command(command: Sequence[str], seconds: float) -> Finished:
    """Run a command to its end, or kill it when this is cancelled. Raises `TimeoutError` after so many seconds."""
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=nothing, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(seconds):
            stdout, stderr = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return Finished(await process.wait(), stdout, stderr)
