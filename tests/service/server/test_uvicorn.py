"""A notice of changes in uvicorn's private protocol class, on which `Connection` rests."""

import hashlib
import inspect

from uvicorn.protocols.http import flow_control, httptools_impl

_DIGEST = "1f0ad26f71ba02a760f1965589e05ae7e93ec5eb5a25b6c0d796f71630a3a051"


def test_the_private_protocol_class_is_the_one_that_connection_was_written_for() -> None:
    """Read the difference if this fails, adapt `service/server`, run the system tests, then note the new digest."""
    source = "".join(
        inspect.getsource(each)
        for each in (
            httptools_impl.HttpToolsProtocol,
            httptools_impl.RequestResponseCycle,
            flow_control.FlowControl,
        )
    )
    assert hashlib.sha256(source.encode()).hexdigest() == _DIGEST
