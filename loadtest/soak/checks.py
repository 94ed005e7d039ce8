"""Checks after the end: the server's log, and its charges, agree with what the clients saw."""

import json
import math
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from loadtest.soak.site import Site

ENDPOINT: Final = "/translate"
_DEATH: Final = "engine process ended, starting another"
_NO_START: Final = "engine cannot start"
"""The message about an engine whose checkpoint is gone, or is another one; it is followed by that of its end."""
_EXPECTED_ERRORS: Final = frozenset(
    {
        _DEATH,
        _NO_START,
        "the engine has hung",
        *(f"the {name} has died, starting another" for name in ("zygote", "fork server")),
        *(f"the {name} does not answer" for name in ("zygote", "fork server")),
        *(f"the {name} cannot start" for name in ("zygote", "fork server")),
    }
)
"""The server's log messages about processes that were killed or stopped."""
_KILLED: Final = re.compile(r"process \d+ was killed by signal 9\b")
_START: Final = "listening"
_KILL_SECONDS: Final = 5.0
"""Both processes may have waited so long for a processor between the answer and the kill."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_TRACEBACK_LINES: Final = 30


def check_log(log: Path, site: Site, answered: int) -> None:
    """Check that every request has one line and its outcome in the log, none has two, and nothing failed inside.

    `answered` is how many the server has counted since it was started last: also of those whose clients did not wait
    for their outcome.
    """
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    lines = [json.loads(line) for line in text if line.startswith("{")]
    requests = [line for line in lines if line["message"] == "request" and line["route"] == ENDPOINT]
    last = max((number for number, line in enumerate(lines) if line["message"] == _START), default=0)
    counted = sum(1 for line in lines[last:] if line["message"] == "request" and line["route"] == ENDPOINT)
    if counted != answered:
        site.problems.append(f"the log has {counted} requests, {answered} were counted")
    times = Counter(line["request_id"] for line in requests)
    outcome = {line["request_id"]: line["outcome"] for line in requests}
    if twice := [each for each, count in times.items() if count > 1]:
        site.problems.append(f"{len(twice)} requests have two outcomes: {twice[:3]}")
    for request_id, (expected, at) in {
        **{name: ("ok", at) for name, at in site.tally.ids.items()},
        **site.answered,
    }.items():
        # The last line of a request is written after its last byte: a kill may come between.
        kill_seconds = min((abs(at - kill) for kill in site.supervisor.ends), default=math.inf)
        is_cut = request_id not in outcome and kill_seconds < _KILL_SECONDS
        if outcome.get(request_id) != expected and not is_cut:
            site.problems.append(
                f"request {request_id} was answered {expected}, its log says {outcome.get(request_id)}; "
                f"{kill_seconds:.1f} s lie between that and the nearest end of an HTTP process"
            )
    _check_messages(text, lines, site)


def _check_messages(text: Sequence[str], lines: Sequence[dict[str, Any]], site: Site) -> None:
    for number, line in enumerate(text):
        # A process that dies of one does not log it.
        if line.startswith(_TRACEBACK):
            site.problems.append("\n".join(["log:", *text[number : number + _TRACEBACK_LINES]]))
    for fields in lines:
        is_expected = fields["message"] in _EXPECTED_ERRORS or _KILLED.match(fields["message"])
        is_error = fields["level"] in ("ERROR", "CRITICAL") and not is_expected
        if is_error or _TRACEBACK in fields.get("exc_info", ""):
            site.problems.append(f"log: {json.dumps(fields)[:2000]}")
        elif fields["message"] == "draining" and fields["requests"]:
            site.problems.append(f"{fields['requests']} requests were left at the end")
    messages = Counter(fields["message"] for fields in lines)
    deaths = messages[_DEATH]
    if deaths > site.deaths + messages[_NO_START] or (deaths < site.deaths and not site.supervisor.ends):
        site.problems.append(f"{deaths} engines died, {site.deaths} were killed or stopped")


def check_charges(site: Site) -> dict[str, int]:
    """Check that the canaries' key has paid once for what was answered, and for no more than was lost beside it."""
    with closing(sqlite3.connect(site.places.keys)) as database:
        [charged] = database.execute("SELECT coalesce(sum(characters), 0) FROM usage").fetchone()
    answered, lost = site.tally.characters, site.tally.characters_lost
    if not 0 <= charged - answered <= lost:
        site.problems.append(f"{charged} characters were charged, {answered} answered, {lost} lost before an event")
    return {"charged": charged, "answered": answered, "lost_before_an_event": lost}
