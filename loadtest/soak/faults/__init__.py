"""The table of faults. Each returns when it is over, and reports where the server broke a promise to its requests."""

from collections.abc import Awaitable, Callable
from typing import Final

from loadtest.soak.faults import clients, processes
from loadtest.soak.site import Site

Fault = Callable[[Site], Awaitable[None]]

FAULTS: Final[dict[str, Fault]] = {
    **{loss.name: loss.run for loss in processes.LOSSES},
    "checkpoint_deleted": processes.checkpoint_deleted,
    "slow_readers": clients.slow_readers,
    "stuck_readers": clients.stuck_readers,
    "half_open": clients.half_open,
    "disconnect_storm": clients.disconnect_storm,
    "flood": clients.flood,
}
KILL_HTTP: Final = frozenset(loss.name for loss in processes.LOSSES if loss.http)
"""Faults after which the HTTP process starts anew, and with it its memory."""
