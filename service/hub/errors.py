"""The errors of the hub. Each message is one line that names the model, host or file, and the remedy."""

import errno


class HubError(Exception):
    """A model that cannot be downloaded; another attempt would fail, too."""


class TemporaryHubError(HubError):
    """A download that the network, a host or the disk prevents now; a later attempt may succeed."""


def missing_offline(name: object) -> HubError:
    """Return the error for a missing model while the network may not be used."""
    return HubError(f"{name}: is not here, and offline nothing is downloaded; `dragoman pull {name}` gets it online")


def is_full_disk(error: BaseException) -> bool:
    """Return True if the error, or one that caused it, says that a disk or a quota is full."""
    while not (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
        cause = error.__cause__ or error.__context__
        if cause is None:
            return False
        error = cause
    return True
