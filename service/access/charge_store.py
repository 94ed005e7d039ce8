"""Charges in the key file: what running requests have paid, and which streams may be resumed without another charge.

A row of `charges` is

- `open` while its request is translated. The rows that a killed server leaves `open` are refunded by the next one;
- `paid` once a stream has been sent to its end, or its client has left. It allows resumptions until it expires.
  Other requests need no row any more;
- `refunded` if its stream was lost with the server. When that stream is resumed, it is charged again.

They expire by a clock of the file's own, in the table `clock`, since the wall clock can be set. It goes on while a
server uses the file, and stands still while none does.

A commit is one write to the WAL without a sync: it survives the death of the process, not a power failure.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from service.access.key_store import Key, KeyStore
from service.access.stream_credits import AFTERWARDS_SECONDS, RESUMPTIONS

_NO_LIMIT: Final = 2**62
_SWEEP_SECONDS: Final = 60.0


class Payer(NamedTuple):
    """A key and the month (UTC) that a request is charged to."""

    key: Key
    month: str


class PaidStream(NamedTuple):
    """A request that may be resumed: its name, and the longest time that it takes."""

    request: str
    seconds: float

    def expires_at(self, now: int) -> int:
        return now + int(self.seconds) + 1 + AFTERWARDS_SECONDS


class Resumption(NamedTuple):
    """A charge that covers a resumed stream. `is_charged_again`: it had been refunded when its server was lost."""

    charge_id: int
    is_charged_again: bool


class LostCharge(NamedTuple):
    """An open charge of a server that has ended. `request` is the name of its stream; None if it was none."""

    charge_id: int
    key_label: str
    request: str | None


class ChargeStore(KeyStore):
    """The open key file with the charges of one server, which has a number of its own."""

    def __init__(self, path: Path, server: int) -> None:
        super().__init__(path)
        self._server = server
        self._swept_at = time.monotonic() - _SWEEP_SECONDS
        with self._explained():
            [self._clock] = self._database.execute("SELECT seconds FROM clock").fetchone()
        self._clock_read_at = time.monotonic()
        """Time at which this connection last read the file's clock, which said `_clock`."""

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._explained():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # a full disk may have ended it
                    self._database.execute("ROLLBACK")
                raise

    def _now(self, database: sqlite3.Connection) -> int:
        """Advance the file's clock by the time since this connection's last call, and return it in seconds.

        A connection that another one is ahead of takes the other's time.
        """
        at = time.monotonic()
        [self._clock] = database.execute(
            "UPDATE clock SET seconds = max(seconds, ?) RETURNING seconds", (self._clock + at - self._clock_read_at,)
        ).fetchone()
        self._clock_read_at = at
        return int(self._clock)

    def charge(self, payer: Payer, characters: int, stream: PaidStream | None = None) -> int | None:
        """Count a request and its characters; return the id of the charge, which is open until it is settled.

        Return None, and count nothing, if they exceed the quota of the month. A removed key has none.
        """
        limit = payer.key.limits.characters_per_month
        with self._transaction() as database:
            now = self._now(database)
            self._sweep(database, now)
            [known] = database.execute("SELECT count(*) FROM keys WHERE id = ?", (payer.key.id,)).fetchone()
            if not known or not self._count(database, payer, characters, _NO_LIMIT if limit is None else limit):
                return None
            request, expires_at = (stream.request, stream.expires_at(now)) if stream else (None, None)
            return database.execute(
                """INSERT INTO charges (key_id, month, characters, state, server, request, expires_at)
                VALUES (?, ?, ?, 'open', ?, ?, ?)""",
                (payer.key.id, payer.month, characters, self._server, request, expires_at),
            ).lastrowid

    @staticmethod
    def _count(database: sqlite3.Connection, payer: Payer, characters: int, limit: int) -> bool:
        if characters > limit:
            return False
        counted = database.execute(
            """INSERT INTO usage (key_id, month, requests, characters) VALUES (?, ?, 1, ?)
            ON CONFLICT DO UPDATE
            SET requests = requests + 1, characters = characters + excluded.characters
            WHERE characters + excluded.characters <= ?""",
            (payer.key.id, payer.month, characters, limit),
        )
        return counted.rowcount == 1

    def _sweep(self, database: sqlite3.Connection, now: int) -> None:
        """Delete expired receipts, once a minute."""
        if time.monotonic() >= self._swept_at + _SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            database.execute("DELETE FROM charges WHERE state != 'open' AND expires_at <= ?", (now,))

    def settle(self, charge_id: int) -> None:
        """Close a charge whose request was answered; a stream may still be resumed."""
        with self._transaction() as database:
            self._settle(database, charge_id)

    def _settle(self, database: sqlite3.Connection, charge_id: int) -> None:
        refunded = database.execute(
            "SELECT key_id, month, characters FROM charges WHERE id = ? AND state = 'refunded'", (charge_id,)
        ).fetchone()
        if refunded is not None:
            # Its stream was resumed on another server, which was killed, while this server still sent the stream.
            key_id, month, characters = refunded
            self._discount(database, (-1, -characters, key_id, month))
        database.execute("DELETE FROM charges WHERE id = ? AND request IS NULL", (charge_id,))
        database.execute("UPDATE charges SET state = 'paid' WHERE id = ?", (charge_id,))

    def refund(self, charge_id: int, sent: int = 0) -> None:
        """Undo an open charge but for the characters that were `sent`; settle it if a resumption has used it."""
        with self._transaction() as database:
            charge = database.execute(
                "DELETE FROM charges WHERE id = ? AND resumptions = 0 RETURNING key_id, month, characters", (charge_id,)
            ).fetchone()
            if charge is None:
                self._settle(database, charge_id)
            else:
                key_id, month, characters = charge
                self._discount(database, (0 if sent else 1, characters - sent, key_id, month))

    @staticmethod
    def _discount(database: sqlite3.Connection, usage: tuple[int, int, int, str]) -> None:
        database.execute(
            "UPDATE usage SET requests = requests - ?, characters = characters - ? WHERE key_id = ? AND month = ?",
            usage,
        )

    def resume(
        self, payer: Payer, characters: int, stream: PaidStream, *, only_refunded: bool = False
    ) -> Resumption | None:
        """Use a charge for a resumption of its stream; None if the key has no such charge.

        A refunded one is charged again, whatever the quota is: the server lost the stream, not the caller.
        """
        with self._transaction() as database:
            now = self._now(database)
            charge = database.execute(
                """SELECT id, state FROM charges
                WHERE key_id = ? AND request = ? AND expires_at > ? AND resumptions < ?
                AND (state = 'refunded' OR NOT ?)
                ORDER BY id DESC LIMIT 1""",
                (payer.key.id, stream.request, now, RESUMPTIONS, only_refunded),
            ).fetchone()
            if charge is None:
                return None
            charge_id, state = charge
            if state != "refunded":
                database.execute(
                    "UPDATE charges SET resumptions = resumptions + 1, server = ? WHERE id = ?",
                    (self._server, charge_id),
                )
                return Resumption(charge_id, is_charged_again=False)
            self._count(database, payer, characters, _NO_LIMIT)
            database.execute(
                """UPDATE charges SET state = 'open', month = ?, characters = ?, server = ?, resumptions = 0,
                expires_at = ? WHERE id = ?""",
                (payer.month, characters, self._server, stream.expires_at(now), charge_id),
            )
            return Resumption(charge_id, is_charged_again=True)

    def undo_resumption(self, charge_id: int) -> None:
        """Forget a resumption that did not begin."""
        with self._transaction() as database:
            database.execute("UPDATE charges SET resumptions = resumptions - 1 WHERE id = ?", (charge_id,))

    def open_servers(self) -> list[int]:
        """Return the numbers of servers that have open charges, running or not."""
        with self._explained():
            rows = self._database.execute("SELECT DISTINCT server FROM charges WHERE state = 'open'")
            return [server for (server,) in rows]

    def lost(self, server: int) -> list[LostCharge]:
        """Return the open charges of a server that has ended."""
        with self._explained():
            rows = self._database.execute(
                """SELECT charges.id, label, request FROM charges JOIN keys ON keys.id = key_id
                WHERE state = 'open' AND server = ?""",
                (server,),
            )
            return [LostCharge(*row) for row in rows]

    def refund_lost(self, charge_id: int) -> None:
        """Refund a charge whose server has ended, or whose lost stream could not be resumed yet.

        If its stream is resumed, it is charged again, whatever the quota is: there is time for that from now on.
        """
        with self._transaction() as database:
            charges = database.execute(
                """UPDATE charges SET state = 'refunded', expires_at = max(expires_at, ?) WHERE id = ?
                RETURNING key_id, month, characters""",
                (self._now(database) + AFTERWARDS_SECONDS, charge_id),
            ).fetchall()
            for key_id, month, characters in charges:
                self._discount(database, (1, characters, key_id, month))
            database.execute("DELETE FROM charges WHERE id = ? AND request IS NULL", (charge_id,))
