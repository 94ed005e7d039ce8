"""Import of foreign checkpoints into the user's cache, once for each. Runs in a process of its own."""

import asyncio
import json
import logging
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from model.checkpoint_config import ANY, CheckpointError, LanguageHint, fingerprint
from service.interpreter import python_command

logger = logging.getLogger(__name__)


def ensure_imported(path: Path, *, languages: LanguageHint = ANY) -> Path:
    """Return `path` if it is a native checkpoint, otherwise the imported one, importing it if necessary.

    `languages` are for formats whose files do not name them.
    The process that imports may load torch and take the memory of a whole model. Raises `CheckpointError`.
    """
    place = _native_path(path)
    if not place.exists():
        with _import_command(place, path, languages) as command:
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            _check(done.returncode, done.stderr)
    return place


async def import_in_background(path: Path) -> Path:
    """Do the same as `ensure_imported` without blocking; a cancelled import leaves no files."""
    place = await asyncio.to_thread(_native_path, path)
    if not place.exists():
        with _import_command(place, path) as command:
            pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
            process = await asyncio.create_subprocess_exec(*command, stdout=nowhere, stderr=pipe)
            try:
                _, stderr = await process.communicate()
            except asyncio.CancelledError:
                process.kill()
                await process.wait()
                raise
            _check(await process.wait(), stderr)
    return place


def _native_path(path: Path) -> Path:
    """Return where the native checkpoint is, or will be."""
    if not path.exists():
        raise CheckpointError(f"{path}: there is no such file or directory")
    return platformdirs.user_cache_path("dragoman") / "models" / fingerprint(path) if _is_foreign(path) else path


@contextmanager
def _import_command(place: Path, path: Path, languages: LanguageHint = ANY) -> Iterator[list[str]]:
    """Yield the command that imports `path`, and move its output to `place` at the end."""
    logger.info("importing %s, once", path)
    place.parent.mkdir(parents=True, exist_ok=True)
    # The output is moved into place when it is complete, so it is on the same disk.
    with tempfile.TemporaryDirectory(dir=place.parent) as directory:
        made = Path(directory) / "model"
        hints = [f"--{side}={code}" for side, code in languages._asdict().items() if code]
        yield python_command("-m", "service", "import", str(path), "--output", str(made), *hints)
        try:
            made.rename(place)
        except OSError:
            if not place.exists():  # otherwise another server has imported the same
                raise


def _check(code: int, stderr: bytes) -> None:
    """Raise `CheckpointError` with the command's error message, without the output before it."""
    if code:
        text = stderr.decode(errors="replace").strip()
        _, found, message = f"\n{text}".rpartition("\ndragoman: ")
        if not found:
            logger.error("an import ended with %d: %s", code, text)
        raise CheckpointError(message if found else f"its import ended with {code}; the log says more")


def _is_foreign(path: Path) -> bool:
    """Return True for Argos packages (files, or with a `model`), CTranslate2, Firefox and Hugging Face models."""
    if path.is_file() or any(path.glob("model.bin")) or any(path.glob("**/model/model.bin")):
        return True
    if any(path.glob("model.*intgemm*.bin")):
        return True
    try:
        config = json.loads((path / "config.json").read_bytes())
    except (OSError, ValueError):
        return False  # the error is reported when it is loaded
    return isinstance(config, dict) and "model_type" in config
