"""The table of faults. Each returns when it is over, and reports where the server broke a promise to its requests."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from loadtest.soak.faults import clients, surroundings
from loadtest.soak.faults.processes import LOSSES
from loadtest.soak.site import Site


class Fault(NamedTuple):
    """A row of the table."""

    run: Callable[[Site], Awaitable[None]]
    kills_http: bool = False
    """The HTTP process starts anew, and with it its memory."""
    missing: Callable[[], str | None] = lambda: None
    """Returns the reason why the fault cannot happen here, if there is one."""


FAULTS: Final[dict[str, Fault]] = {
    **{loss.name: Fault(loss.run, kills_http=loss.http) for loss in LOSSES},
    "checkpoint_deleted": Fault(surroundings.checkpoint_deleted),
    "checkpoint_replaced": Fault(surroundings.checkpoint_replaced),
    "slow_disk": Fault(surroundings.slow_disk),
    "clock_stepped": Fault(surroundings.clock_stepped, missing=surroundings.without_clock),
    "poison": Fault(surroundings.poison),
    "slow_readers": Fault(clients.slow_readers),
    "stuck_readers": Fault(clients.stuck_readers),
    "half_open": Fault(clients.half_open),
    "disconnect_storm": Fault(clients.disconnect_storm),
    "flood": Fault(clients.flood),
    "fuzzed": Fault(clients.fuzzed),
    "crowd": Fault(clients.crowd),
    "bad_networks": Fault(clients.bad_networks),
}
