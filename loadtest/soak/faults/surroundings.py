"""Faults of the files, the disk and the clock around the server, and of one request."""

import asyncio
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from loadtest.sentences import LANGUAGES
from loadtest.soak.faults.processes import Loss, replaced, whole
from loadtest.soak.poison.sitecustomize import SEED, VARIABLE
from loadtest.soak.site import ENGINES, Places, Site
from loadtest.soak.wire import connect, new_id, post

_WITHOUT_MODEL_SECONDS: Final = 3.0
_SLOW_WRITES: Final = 8
_SLOW_SECONDS: Final = (0.1, 0.8)
"""After two seconds without a turn to write, requests with keys are refused: that would be a fault of its own."""
_JUMPS: Final = ("+5h", "-9h", "+400d", "-1d", "+0")
_ANSWER_SECONDS: Final = 120.0
_LIBRARY: Final = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


def prepare(places: Places, model: Path) -> None:
    """Copy the model, and make another of the same shape whose weights differ."""
    import torch

    from model.checkpoint import load_model, save_checkpoint
    from model.checkpoint_config import load_config, load_tokenizer

    shutil.copytree(model, places.model)
    loaded = load_model(model)
    with torch.no_grad():
        for parameter in loaded.parameters():
            parameter.mul_(0.9)
    save_checkpoint(places.other_model, load_config(model), loaded.state_dict(), load_tokenizer(model), torch.float32)
    places.clock.write_text("+0")
    places.poisoned.touch()


def environment(places: Places, *, sets_clock: bool) -> Mapping[str, str]:
    """Return the variables by which the server's engines can be poisoned and, if wanted, its clock be set."""
    paths = [str(Path(__file__).parent.parent / "poison"), os.environ.get("PYTHONPATH")]
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), VARIABLE: str(places.poisoned)}
    if sets_clock:
        variables |= {
            "LD_PRELOAD": str(_LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(places.clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Otherwise a wait with a timeout on the monotonic clock ends at once or never, and Python's threads take
            # seconds, instead of 5 ms, to take turns.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }
    return variables


def clean_up() -> None:
    """Remove what libfaketime leaves in shared memory when its process is killed."""
    for left in Path("/dev/shm").glob("*faketime_s[eh]m_*"):
        if not Path("/proc", left.name.rpartition("_")[2]).exists():
            left.unlink(missing_ok=True)


def without_clock() -> str | None:
    """Return the reason why the clock cannot be set, if it cannot."""
    return "no libfaketime: it comes with Debian's package faketime" if _LIBRARY is None else None


async def checkpoint_deleted(site: Site) -> None:
    """Delete the model, and with it all processes that have it in memory; then put it back."""
    await _without_model(site, "checkpoint_deleted", None)


async def checkpoint_replaced(site: Site) -> None:
    """Put another model's files in the place of the model's: nothing may be translated with them."""
    await _without_model(site, "checkpoint_replaced", site.places.other_model)


async def _without_model(site: Site, fault: str, other: Path | None) -> None:
    place = site.places.model
    aside = place.with_name("aside")
    loss = Loss(fault, engines=ENGINES, fork_server=signal.SIGKILL)

    async def put_back() -> None:
        await asyncio.sleep(_WITHOUT_MODEL_SECONDS)
        if other is not None:
            await asyncio.to_thread(shutil.rmtree, place)
        aside.rename(place)

    async with whole(site):
        log_bytes = site.places.log.stat().st_size
        place.rename(aside)
        if other is not None:
            await asyncio.to_thread(shutil.copytree, other, place)
        putting = asyncio.create_task(put_back())
        try:
            await loss.happen(site, log_bytes)
        finally:
            await putting
        site.count(fault, "replaced")


async def slow_disk(site: Site) -> None:
    """Let the writes to the key file, the only ones that requests wait for, take up to a second."""
    async with site.disk:
        for _ in range(_SLOW_WRITES):
            await asyncio.to_thread(_hold, site.places.keys, site.rng.uniform(*_SLOW_SECONDS))
            await asyncio.sleep(site.rng.uniform(0.3, 0.5))
            site.count("slow_disk", "slow")


def _hold(keys: Path, seconds: float) -> None:
    with closing(sqlite3.connect(keys, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        database.execute("ROLLBACK")


async def clock_stepped(site: Site) -> None:
    """Set the wall clock of the server and of its engines, forwards and back."""
    for jump in _JUMPS:
        new = site.places.clock.with_suffix(".new")
        new.write_text(jump)
        new.replace(site.places.clock)  # never half of it
        await asyncio.sleep(1.5)
        site.count("clock_stepped", "stepped")


async def poison(site: Site) -> None:
    """Send a request that kills every engine that it gets to: it fails, and no other."""
    body: dict[str, Any] = {"q": "I see a cat.", **LANGUAGES, "stream": True, "temperature": 1.0, "seed": SEED}
    request_id, started = new_id(), time.monotonic()
    async with whole(site):
        before, log_bytes = len(_killed(site.places)), site.places.log.stat().st_size
        async with connect(site.port) as connection:
            await connection.send(post(body, request_id))
            answer = await connection.answer(_ANSWER_SECONDS)
        killed = _killed(site.places)[before:]
        site.deaths += len(killed)
        if answer.outcome == "engine_failed" and not killed:
            site.problems.append("poison: it has killed no engine")
        # The last one is answered for when its channel ends, which is before its process has.
        await replaced(site, "poison", killed, len(killed), log_bytes)
    site.note("poison", request_id, answer, frozenset({"engine_failed", "queue_full", "not_ready"}), started)


def _killed(places: Places) -> list[int]:
    """Return the ids of the engines that the poisonous request has killed."""
    return [int(line) for line in places.poisoned.read_text().splitlines()]
