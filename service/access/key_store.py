"""API keys, their limits and their usage in one SQLite file.

Several processes may share the file: `dragoman keys` and all servers of the machine. A write is visible to the others
with their next request.
"""

import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from service.settings import UnusableSettingError

_BUSY_SECONDS: Final = 5.0
_PRIVATE: Final = 0o600
"""The mode of a new file; SQLite gives it to the files beside it, too."""
_PREFIX: Final = "dragoman"
_MAX_LENGTH: Final = 128
"""Length of a key in characters; a longer string is no key and is not hashed."""

_VERSION: Final = 5
_FIRST_WITH_A_SECRET: Final = 4
_EARLIER: Final = """
    UPDATE usage SET characters = characters - (
        SELECT coalesce(sum(characters), 0) FROM charges
        WHERE state = 'open' AND charges.key_id = usage.key_id AND charges.month = usage.month
    );
    DROP TABLE charges;
    DROP TABLE IF EXISTS clock;
    ALTER TABLE usage DROP COLUMN requests
    """
"""Statements that bring a file of versions 2 and 3 up to date; files of 1 and 4 need the last one only.

Versions 2 and 3 noted each running translation as an open charge, and a server that was killed has left some.
"""
_TABLES: Final = """
    CREATE TABLE IF NOT EXISTS keys (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        label TEXT NOT NULL UNIQUE,
        digest BLOB NOT NULL,
        created_at TEXT NOT NULL,
        requests_per_minute INTEGER,
        characters_per_minute INTEGER,
        characters_per_month INTEGER,
        streams INTEGER
    ) STRICT;
    CREATE TABLE IF NOT EXISTS usage (
        key_id INTEGER NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
        month TEXT NOT NULL,
        characters INTEGER NOT NULL,
        PRIMARY KEY (key_id, month)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS secret (value BLOB NOT NULL) STRICT
    """
_NO_LIMIT: Final = 2**62
_SECRET_BYTES: Final = 32


class KeysError(UnusableSettingError):
    """A key file that cannot be used, or a name that is taken or unknown; the message is written for people."""


@dataclass(frozen=True)
class KeyLimits:
    """The limits of one caller; None means no limit."""

    requests_per_minute: int | None = None
    characters_per_minute: int | None = None
    characters_per_month: int | None = None
    streams: int | None = None
    """Concurrent streams in each server."""


_LIMIT_COLUMNS: Final = ", ".join(field.name for field in fields(KeyLimits))


@dataclass(frozen=True)
class Key:
    """The stored record of a key, without the key itself. `label` is its public part, by which people recognise it."""

    id: int
    name: str
    label: str
    created_at: str
    limits: KeyLimits


class KeyStore:
    """The open key file. Every method is one transaction and may raise `KeysError`."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self._path = path
        if not create and not path.is_file():
            raise KeysError(f"{path}: there is no such file; create it with `dragoman keys add`")
        if create:
            with suppress(OSError):  # SQLite reports the same
                path.touch(_PRIVATE)
        with self._explained(), ExitStack() as stack:
            # One thread uses the connection at a time, but not always the one that opened it.
            self._database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            stack.callback(self._database.close)
            self._prepare()
            stack.pop_all()

    def _prepare(self) -> None:
        # With WAL, NORMAL survives the death of the process at any moment; only a power failure may lose the last
        # writes.
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.execute("BEGIN IMMEDIATE")
        [version] = self._database.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise KeysError(f"{self._path}: it was written by another version of Dragoman")
        if version < _VERSION:
            earlier = _EARLIER.split(";")
            updates = {0: [], 2: earlier, 3: earlier}.get(version, earlier[-1:])
            for statement in (*updates, *_TABLES.split(";")):
                self._database.execute(statement)
            if version < _FIRST_WITH_A_SECRET:
                self._database.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(_SECRET_BYTES),))
            self._database.execute(f"PRAGMA user_version = {_VERSION}")
        self._database.execute("COMMIT")

    def close(self) -> None:
        self._database.close()

    def wait_for_others(self, seconds: float) -> None:
        """Limit how long later calls wait while another process writes."""
        with self._explained():
            self._database.execute(f"PRAGMA busy_timeout = {max(0, round(1000 * seconds))}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise KeysError(f"{self._path}: {error}") from error

    def add(self, name: str, limits: KeyLimits) -> str:
        """Create a key and return it; only its hash is stored."""
        label, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        key = f"{_PREFIX}-{label}-{secret}"
        created_at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._explained():
            try:
                self._database.execute(
                    f"INSERT INTO keys (name, label, digest, created_at, {_LIMIT_COLUMNS}) VALUES (?,?,?,?, ?,?,?,?)",
                    (name, label, _digest(key), created_at, *astuple(limits)),
                )
            except sqlite3.IntegrityError:
                raise KeysError(f"{name}: there is a key of this name") from None
        return key

    def remove(self, name: str) -> None:
        """Delete a key and its usage."""
        with self._explained():
            removed = self._database.execute("DELETE FROM keys WHERE name = ?", (name,)).rowcount
        if not removed:
            raise KeysError(f"{name}: there is no key of this name")

    def list(self) -> list[Key]:
        with self._explained():
            rows = self._database.execute(
                f"SELECT id, name, label, created_at, {_LIMIT_COLUMNS} FROM keys ORDER BY name"
            )
            return [_key(row) for row in rows]

    def find(self, key: str) -> Key | None:
        """Return the record of a key; None for a string that is no key of this file."""
        label = key.split("-", 2)[1] if len(key) <= _MAX_LENGTH and key.startswith(f"{_PREFIX}-") else ""
        with self._explained():
            row = self._database.execute(
                f"SELECT id, name, label, created_at, {_LIMIT_COLUMNS}, digest FROM keys WHERE label = ?", (label,)
            ).fetchone()
        # The label is public and finds the row; the time of the comparison reveals nothing of the rest.
        if row is None or not hmac.compare_digest(row[-1], _digest(key)):
            return None
        return _key(row[:-1])

    def usage(self, key: Key, month: str) -> int:
        """Return the characters of a key in a month."""
        with self._explained():
            row = self._database.execute(
                "SELECT characters FROM usage WHERE key_id = ? AND month = ?", (key.id, month)
            ).fetchone()
        return row[0] if row else 0

    def count(self, key: Key, month: str, characters: int) -> bool:
        """Count characters; return False, and count nothing, if they exceed the month's quota.

        A key that was removed meanwhile has none.
        """
        limit = key.limits.characters_per_month
        with self._explained():
            counted = self._database.execute(
                """INSERT INTO usage (key_id, month, characters) SELECT id, ?2, ?3 FROM keys WHERE id = ?1 AND ?3 <= ?4
                ON CONFLICT DO UPDATE SET characters = characters + excluded.characters
                WHERE characters + excluded.characters <= ?4""",
                (key.id, month, characters, _NO_LIMIT if limit is None else limit),
            )
        return counted.rowcount == 1

    def give_back(self, key: Key, month: str, characters: int) -> None:
        """Undo a count, or a part of it."""
        with self._explained():
            self._database.execute(
                "UPDATE usage SET characters = characters - ? WHERE key_id = ? AND month = ?",
                (characters, key.id, month),
            )

    @property
    def secret(self) -> bytes:
        """The secret of all servers that share the file, by which they sign streams."""
        with self._explained():
            [secret] = self._database.execute("SELECT value FROM secret").fetchone()
        assert isinstance(secret, bytes)
        return secret


def _digest(key: str) -> bytes:
    # Slow hashes protect passwords, which can be guessed. Nobody guesses 256 random bits, and every request is checked.
    return hashlib.sha256(key.encode()).digest()


def _key(row: tuple[int, str, str, str, int | None, int | None, int | None, int | None]) -> Key:
    key_id, name, label, created_at, *limits = row
    return Key(key_id, name, label, created_at, KeyLimits(*limits))
