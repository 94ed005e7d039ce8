"""Models of other formats, where one of ours is wanted: imported once, into the user's cache."""

import asyncio
import json
import logging
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from model.checkpoint_config import CheckpointError, fingerprint
from service.interpreter import python_command

logger = logging.getLogger(__name__)


def imported(path: Path) -> Path:
    """`path` if it is a checkpoint of ours, otherwise where it has been imported, now or before.

    In a process of its own, which may load torch and take the memory of a whole model. Raises `CheckpointError`.
    """
    place = _place_of(path)
    if not place.exists():
        with _made_at(place, path) as command:
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            _check(done.returncode, done.stderr)
    return place


async def imported_meanwhile(path: Path) -> Path:
    """As `imported`, while others go on; one that is cancelled leaves nothing behind."""
    place = await asyncio.to_thread(_place_of, path)
    if not place.exists():
        with _made_at(place, path) as command:
            pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
            process = await asyncio.create_subprocess_exec(*command, stdout=nowhere, stderr=pipe)
            try:
                _, said = await process.communicate()
            except asyncio.CancelledError:
                process.kill()
                await process.wait()
                raise
            _check(await process.wait(), said)
    return place


def _place_of(path: Path) -> Path:
    """Where the checkpoint of ours is, or will be."""
    if not path.exists():
        raise CheckpointError(f"{path}: there is no such file or directory")
    return platformdirs.user_cache_path("dragoman") / "models" / fingerprint(path) if _is_foreign(path) else path


@contextmanager
def _made_at(place: Path, path: Path) -> Iterator[list[str]]:
    """The command that imports `path`; what it makes is put at `place` at the end."""
    logger.info("importing %s, once", path)
    place.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place: what is there is whole.
    with tempfile.TemporaryDirectory(dir=place.parent) as directory:
        made = Path(directory) / "model"
        yield python_command("-m", "service", "import", str(path), "--output", str(made))
        try:
            made.rename(place)
        except OSError:
            if not place.exists():  # another server was there first, with the same
                raise


def _check(code: int, said: bytes) -> None:
    """Raises `CheckpointError` with what the command has failed with, without what else stands before it."""
    if code:
        text = said.decode(errors="replace").strip()
        _, found, message = f"\n{text}".rpartition("\ndragoman: ")
        if not found:
            logger.error("an import ended with %d: %s", code, text)
        raise CheckpointError(message if found else f"its import ended with {code}; the log says more")


def _is_foreign(path: Path) -> bool:
    """Argos packages are files or hold a `model`, CTranslate2 has a model.bin; Hugging Face says its type."""
    if path.is_file() or any(path.glob("model.bin")) or any(path.glob("**/model/model.bin")):
        return True
    try:
        described = json.loads((path / "config.json").read_bytes())
    except (OSError, ValueError):
        return False  # what is wrong is said where it is loaded
    return isinstance(described, dict) and "model_type" in described
