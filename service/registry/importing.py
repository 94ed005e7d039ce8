"""Import of foreign checkpoints into the user's cache, once for each. Runs in a process of its own."""

import asyncio
import json
import logging
import os
import signal
import tempfile
from pathlib import Path
from typing import Final

from model.checkpoint_config import ANY, CheckpointError, LanguageHint, fingerprint
from model.source_files import DEFAULT_MAX_MEGABYTES, check_kinds
from model.user_cache import user_cache
from service.process.interpreter import python_command, run_command

logger = logging.getLogger(__name__)

_SECONDS: Final = 600
"""Time limit of one import."""
_LONGEST_REASON: Final = 2000  # characters


class InterruptedImport(CheckpointError):
    """An import that the machine prevents now, by a full disk or too little memory; a later one may succeed."""


def ensure_imported(path: Path, max_megabytes: int = DEFAULT_MAX_MEGABYTES, *, languages: LanguageHint = ANY) -> Path:
    """Return `path` if it is a native checkpoint, otherwise the imported one, importing it if necessary.

    All files unpacked may have `max_megabytes`; `languages` are for formats whose files do not name them.
    The process that imports may load torch and take the memory of a whole model. Raises `CheckpointError`.
    """
    place = _native_path(path)
    if not place.exists():
        asyncio.run(_import(place, path, max_megabytes, languages))
    return place


async def import_in_background(path: Path) -> Path:
    """Do the same as `ensure_imported` without blocking; a cancelled import leaves no files."""
    place = await asyncio.to_thread(_native_path, path)
    if not place.exists():
        await _import(place, path, DEFAULT_MAX_MEGABYTES, ANY)
    return place


async def _import(place: Path, path: Path, max_megabytes: int, languages: LanguageHint) -> None:
    """Import `path` in another process, and move its output to `place` at the end."""
    logger.info("importing %s, once", path)
    place.parent.mkdir(parents=True, exist_ok=True)
    # The output is moved into place when it is complete, so it is on the same disk.
    with tempfile.TemporaryDirectory(dir=place.parent) as directory:
        made = Path(directory) / "model"
        given = ["--output", str(made), "--max-mb", str(max_megabytes), "--max-seconds", str(_SECONDS)]
        hints = [f"--{side}={code}" for side, code in languages._asdict().items() if code]
        command = python_command("-m", "service", "import", *given, *hints, "--", str(path))
        try:
            done = await run_command(command, _SECONDS)
        except TimeoutError:
            raise CheckpointError(f"{path}: its import was not finished after {_SECONDS} s") from None
        _check(done.status, done.stderr)
        _move(made, place)


def _move(made: Path, place: Path) -> None:
    try:
        made.rename(place)
    except OSError:
        if not place.exists():  # otherwise another server has imported the same
            raise


def _native_path(path: Path) -> Path:
    """Return where the native checkpoint is, or will be. Opens nothing that could be read for ever."""
    if not path.exists():
        hint = "" if len(path.parts) > 1 else "; a public model has a name such as Helsinki-NLP/opus-mt-en-de"
        raise CheckpointError(f"{path}: there is no such file or directory{hint}")
    check_kinds(path)
    return user_cache() / "models" / fingerprint(path) if _is_foreign(path) else path


def _check(code: int, stderr: bytes) -> None:
    """Raise `CheckpointError` with the command's error message in one line, without the output before it."""
    if not code:
        return
    text = stderr.decode(errors="replace").strip()
    _, found, message = f"\n{text}".rpartition("\ndragoman: ")
    if found:
        message = " ".join(message.split())
        left = len(message) - _LONGEST_REASON
        problem = InterruptedImport if code == os.EX_TEMPFAIL else CheckpointError
        raise problem(message if left <= 0 else f"{message[:_LONGEST_REASON]}... ({left} characters more)")
    logger.error("an import ended with %d: %s", code, text)
    how = f"was ended by {signal.Signals(-code).name}" if -code in signal.valid_signals() else f"ended with {code}"
    if code == -signal.SIGKILL:
        raise InterruptedImport(f"its import {how}: out of memory?")
    raise CheckpointError(f"its import {how}; the log says more")


def _is_foreign(path: Path) -> bool:
    """Return True for Argos packages (files, or with a `model`), CTranslate2, Marian and Hugging Face models."""
    if path.is_file() or any(path.glob("model.bin")) or any(path.glob("**/model/model.bin")):
        return True
    if not (path / "config.json").exists():
        return any(path.glob("*intgemm*.bin")) or any(path.glob("*.npz"))
    try:
        config = json.loads((path / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return False  # the error is reported when it is loaded
    return isinstance(config, dict) and "model_type" in config
