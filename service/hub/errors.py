"""The errors of the hub, each a single line that names the model, the host or file, and what to do."""

import errno


class HubError(Exception):
    """A model that cannot be had; another attempt would fail, too."""


class TemporaryHubError(HubError):
    """A model that cannot be had now: the network, a host or the disk is in the way, and may not be later."""


def missing_offline(name: object) -> HubError:
    """Return the error for a model that is not here while the network may not be used."""
    return HubError(f"{name}: is not here, and offline nothing is downloaded; `dragoman pull {name}` gets it online")


def is_full_disk(error: BaseException) -> bool:
    """Return True if the error, or one that caused it, says that a disk or a quota is full."""
    while not (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
        cause = error.__cause__ or error.__context__
        if cause is None:
            return False
        error = cause
    return True
