"""Payments for translations: charges, refunds, and streams that are resumed without another charge.

The month's characters of a key, and the streams that it has paid, are in the key file, where they survive the process.
Servers that share a Redis share the paid streams, too. Callers without a key have no month; only servers' memory, or
Redis, has the streams that were counted for their limit per minute.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from starlette.requests import ClientDisconnect

from service.access.async_key_store import AsyncKeyStore
from service.access.charge_store import LostCharge, PaidStream, Payer
from service.access.counters import Counters
from service.access.key_store import Key, KeyLimits, this_month
from service.access.stream_credits import StreamCredits
from service.errors import DeadlineExceeded, KeysUnavailable, is_error

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Caller:
    """A caller: the owner of a key, or an address without one. `identity` tells callers apart; it is no secret."""

    identity: str
    limits: KeyLimits
    key: Key | None = None


def key_identity(label: str) -> str:
    """Return the identity of a key's owner.

    Two servers that share a Redis may have key files of their own: labels are unique in both, numbers are not.
    """
    return f"key:{label}"


class Streamed(NamedTuple):
    """The request of a stream, which takes no longer than `seconds`. One that `resumes` begins behind events that were
    sent before, and has the `name` of the stream that it resumes; no other stream of the caller has it, if the caller's
    characters are counted."""

    name: str
    seconds: float
    resumes: bool


@dataclass
class Charge:
    """The characters counted for a translation that runs."""

    caller: Caller
    characters: int
    stream: Streamed | None = None
    """None if the request cannot be resumed."""
    id: int | None = None
    """Id in the key file; None if the charge is not in it."""
    is_resumption: bool = False
    """True if an earlier payment covers the translation."""
    is_charged_again: bool = False
    """True if the stream is resumed that a killed server has lost, and that was refunded."""
    is_settled: bool = False
    sent: Callable[[], int] | None = None
    """Returns how many of its characters the caller has the translation of, in a stream that goes on. None before the
    stream has begun."""


class Payments:
    """The payments of all callers. Methods raise `KeysUnavailable` unless they say something else."""

    def __init__(self, key_store: AsyncKeyStore | None, counters: Counters) -> None:
        self._key_store = key_store
        self._credits = StreamCredits(counters)
        self._are_shared = counters.are_shared
        self._anonymous_characters = 0
        self._unsettled: list[int] = []
        """Charges that could not be settled: left open, they would be refunded by the next start of the server."""

    async def reconcile(self) -> None:
        """Refund what was being translated by servers of the key file that have ended. Raises nothing."""
        if self._key_store is None:
            return
        try:
            count = await self._key_store.refund_lost(self._is_refundable)
        except KeysUnavailable:
            logger.error("open charges of the last server could not be refunded")
        else:
            if count:
                logger.info("open charges of the last server were refunded", extra={"charges": count})

    async def _is_refundable(self, lost: LostCharge) -> bool:
        """Return False if the stream was resumed on another server, or is now, for the same payment."""
        if lost.request is None or not self._are_shared:
            return True
        return await self._credits.withdraw(key_identity(lost.key_label), lost.request)

    async def characters_used(self, caller: Caller) -> int:
        """Return the key's characters of this month; without a key, those of all such callers since the start."""
        if caller.key is None or self._key_store is None:
            return self._anonymous_characters
        return (await self._key_store.usage(caller.key, this_month())).characters

    async def charge(self, caller: Caller, characters: int, stream: Streamed | None) -> Charge | None:
        """Charge a translation before it begins; None if it exceeds the caller's quota of the month."""
        charge = Charge(caller, characters, stream)
        if caller.key is None or self._key_store is None:
            self._anonymous_characters += characters
        else:
            paid = None if stream is None else PaidStream(stream.name, stream.seconds)
            charge.id = await self._key_store.charge(Payer(caller.key, this_month()), characters, paid)
            if charge.id is None:
                return None
        await self._add_credit(charge)
        return charge

    async def resume(self, caller: Caller, characters: int, stream: Streamed) -> Charge | None:
        """Return the charge of a resumed stream that was paid for; None if it was not."""
        charge = Charge(caller, characters, stream, is_resumption=True)
        if self._has_credit(charge) and await self._credits.use(caller.identity, stream.name):
            return charge
        if caller.key is None or self._key_store is None:
            return None
        payer, paid = Payer(caller.key, this_month()), PaidStream(stream.name, stream.seconds)
        resumed = await self._key_store.resume(payer, characters, paid, only_refunded=self._are_shared)
        if resumed is None:
            return None
        charge.id, charge.is_charged_again = resumed.charge_id, resumed.is_charged_again
        charge.is_resumption = not resumed.is_charged_again
        if resumed.is_charged_again:
            await self._add_credit(charge)
        return charge

    def _has_credit(self, charge: Charge) -> bool:
        """Return True if Redis, or this server's memory, has the credit of a stream; else the key file has it, or none
        is needed."""
        if charge.stream is None:
            return False
        if charge.caller.key is None:
            return charge.caller.limits.characters_per_minute is not None
        return self._are_shared

    async def _add_credit(self, charge: Charge) -> None:
        if charge.stream is not None and self._has_credit(charge):
            await self._credits.add(charge.caller.identity, charge.stream.name, charge.stream.seconds)

    @asynccontextmanager
    async def ended(self, charge: Charge) -> AsyncIterator[Charge]:
        """Settle the charge when the context ends, or refund it if it ends with an error of the server.

        On timeout, what was sent (`Charge.sent`) is not refunded; on disconnect, nothing is, unless the request is a
        stream that has not begun. A payment that a resumption has used is not refunded either.
        """
        try:
            yield charge
        except ClientDisconnect:
            if charge.stream is not None and charge.sent is None:
                # It has no event by which it could be resumed, and a server that ends closes its connections, too.
                await self._fail(charge, 0)
            else:
                await self.settle(charge)  # what was translated until then is not given back
            raise
        except BaseException as error:
            if not is_error(error):
                raise
            # A caller sets the deadline: else whoever set short ones would get beginnings for nothing.
            sent = charge.sent() if charge.sent and isinstance(error, DeadlineExceeded) else 0
            await self._fail(charge, sent)
            raise
        await self.settle(charge)

    async def settle(self, charge: Charge) -> None:
        """Close a charge whose translation is complete, which is not refunded any more. Raises nothing.

        A stream's charge is settled before its end is sent: who does not receive the end resumes for nothing, and who
        has received it has paid, whatever happens to the server.
        """
        if charge.is_settled:
            return
        charge.is_settled = True
        if self._key_store is not None and charge.id is not None:
            await self._settle_all(self._key_store, [charge.id, *self._unsettled])

    async def _settle_all(self, key_store: AsyncKeyStore, charges: list[int]) -> None:
        """Settle charges; keep those that cannot be, for the next time. Raises nothing."""
        self._unsettled = []
        for number, charge_id in enumerate(charges):
            try:
                await key_store.settle(charge_id)
            except KeysUnavailable:
                logger.error("charges could not be settled yet", extra={"charges": len(charges) - number})
                self._unsettled += charges[number:]
                return

    async def aclose(self) -> None:
        """Settle what could not be settled before."""
        if self._key_store is not None:
            await self._settle_all(self._key_store, self._unsettled)

    async def _fail(self, charge: Charge, sent: int) -> None:
        """Refund all but `sent` characters of a charge, or undo a resumption that has not begun. Raises nothing."""
        if charge.is_settled:
            return
        names = charge.caller.identity, charge.stream.name if charge.stream else ""
        is_shared = self._has_credit(charge)
        if charge.is_resumption and charge.sent is not None:
            await self.settle(charge)
        elif charge.is_resumption and charge.id is None:
            await self._credits.undo_use(*names)
        elif is_shared and not charge.is_resumption and not await self._credits.withdraw(*names):
            await self.settle(charge)
        elif self._key_store is None or charge.id is None:
            self._anonymous_characters -= charge.characters - sent
        else:
            with _logged("characters could not be refunded", charge):
                if charge.is_resumption:
                    await self._key_store.undo_resumption(charge.id)
                elif charge.is_charged_again and charge.sent is None:
                    await self._key_store.undo_charge(charge.id)
                else:
                    await self._key_store.refund(charge.id, sent)
        charge.is_settled = True


@contextmanager
def _logged(message: str, charge: Charge) -> Iterator[None]:
    """Log a key file that cannot be written: the caller gets its response, or the error that came first."""
    try:
        yield
    except KeysUnavailable:
        name = charge.caller.key.name if charge.caller.key else ""
        logger.error(message, extra={"key_name": name, "characters": charge.characters})
