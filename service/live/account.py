"""The characters of a session's source: each is counted once, however often the source changes."""

from service.access.charges import Caller
from service.access.control import AccessControl


class LiveAccount:
    """Counts the source of one session up to the farthest position that it has reached."""

    def __init__(self, access: AccessControl, caller: Caller, start: int) -> None:
        self._access = access
        self._caller = caller
        self._reached = start

    async def reach(self, end: int) -> None:
        """Count what the source has more than ever before. Raises what `AccessControl.charged` does."""
        if end <= (before := self._reached):
            return
        self._reached = end  # at once: another client may change the source while this is counted
        try:
            async with self._access.charged(self._caller, end - before, "append"):
                pass
        except BaseException:
            self._reached = min(self._reached, before)
            raise
