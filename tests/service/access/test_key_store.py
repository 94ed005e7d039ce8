"""Keys and usage in the file: what is kept, what is found again, what is counted."""

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from service.access.key_store import Key, KeyLimits, KeysError, KeyStore

MONTH = "2026-01"


@pytest.fixture
def file(path: Path) -> Iterator[KeyStore]:
    with closing(KeyStore(path, create=True)) as opened:
        yield opened


def _added(file: KeyStore, name: str = "kiosk", limits: KeyLimits | None = None) -> Key:
    key = file.find(file.add(name, limits or KeyLimits()))
    assert key is not None
    return key


def test_only_its_owner_reads_a_new_file(path: Path) -> None:
    """The files beside it hold keys and usage, too."""
    before = os.umask(0)
    try:
        with closing(KeyStore(path, create=True)) as file:
            _added(file)
            modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"keys.db": 0o600, "keys.db-wal": 0o600, "keys.db-shm": 0o600}


def test_a_key_is_found_by_itself_only(file: KeyStore) -> None:
    limits = KeyLimits(1, 2, 3, 4)
    secret = file.add("kiosk", limits)
    other = file.add("office", KeyLimits())
    found = file.find(secret)
    assert found is not None
    assert (found.name, found.limits) == ("kiosk", limits)
    assert [key.name for key in file.list()] == ["kiosk", "office"]
    label = found.label
    assert label in secret
    for wrong in (
        "",
        "kiosk",
        label,
        f"dragoman-{label}",
        f"dragoman-{label}-",
        secret[:-1],
        secret + "x",
        secret.replace(label, other.split("-")[1]),
        "é" * 20,
        "dragoman-" + "x" * 1_000_000,
    ):
        assert file.find(wrong) is None


def test_the_file_does_not_hold_the_key(file: KeyStore, path: Path) -> None:
    key = file.add("kiosk", KeyLimits())
    kept = b"".join(each.read_bytes() for each in path.parent.iterdir())
    assert b"kiosk" in kept
    assert key.split("-", 2)[2].encode() not in kept


def test_a_name_is_taken_once_and_given_back(file: KeyStore) -> None:
    first = file.add("kiosk", KeyLimits())
    with pytest.raises(KeysError, match="kiosk: there is a key of this name"):
        file.add("kiosk", KeyLimits())
    file.remove("kiosk")
    assert file.find(first) is None
    with pytest.raises(KeysError, match="kiosk: there is no key of this name"):
        file.remove("kiosk")
    again = _added(file)
    assert file.usage(again, MONTH) == 0


def test_a_file_that_is_none(path: Path) -> None:
    with pytest.raises(KeysError, match="there is no such file; create it with `dragoman keys add`"):
        KeyStore(path)
    path.write_text("This is no database, but a text that is long enough to be looked at. " * 20)
    with pytest.raises(KeysError, match=r"keys\.db: file is not a database"):
        KeyStore(path)


def test_a_file_of_a_later_version(file: KeyStore, path: Path) -> None:
    file.close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(KeysError, match="another version"):
        KeyStore(path)


def test_a_quota_is_used_up_to_its_last_character(file: KeyStore) -> None:
    key = _added(file, limits=KeyLimits(characters_per_month=10))
    assert not file.count(key, MONTH, 11)
    assert file.count(key, MONTH, 6)
    assert not file.count(key, MONTH, 5)
    assert file.count(key, MONTH, 4)
    assert file.usage(key, MONTH) == 10
    assert file.count(key, "2026-02", 10)
    file.give_back(key, MONTH, 4)
    assert file.usage(key, MONTH) == 6


def test_without_a_quota_everything_is_counted(file: KeyStore) -> None:
    key = _added(file)
    assert file.count(key, MONTH, 10**12)
    assert file.count(key, MONTH, 1)
    assert file.usage(key, MONTH) == 10**12 + 1


def test_a_key_that_is_removed_meanwhile_is_counted_no_more(file: KeyStore) -> None:
    key = _added(file)
    assert file.count(key, MONTH, 9)
    file.remove("kiosk")
    assert not file.count(key, MONTH, 1)
    file.give_back(key, MONTH, 9)
    assert file.usage(key, MONTH) == 0


def test_servers_that_share_a_file_share_the_quota(file: KeyStore, path: Path) -> None:
    key = _added(file, limits=KeyLimits(characters_per_month=150))

    def count_all(_: int) -> int:
        with closing(KeyStore(path)) as mine:
            return sum(mine.count(key, MONTH, 1) for _ in range(100))

    with ThreadPoolExecutor(2) as threads:
        assert sum(threads.map(count_all, (1, 2))) == 150
    assert file.usage(key, MONTH) == 150


def test_a_file_keeps_its_secret_and_no_other_file_has_it(file: KeyStore, path: Path) -> None:
    with closing(KeyStore(path)) as again, closing(KeyStore(path.with_name("other.db"), create=True)) as other:
        assert again.secret == file.secret != other.secret
    assert len(file.secret) == 32


_VERSION_1 = """
    CREATE TABLE keys (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, label TEXT NOT NULL UNIQUE,
        digest BLOB NOT NULL, created_at TEXT NOT NULL, requests_per_minute INTEGER, characters_per_minute INTEGER,
        characters_per_month INTEGER, streams INTEGER
    ) STRICT;
    CREATE TABLE usage (
        key_id INTEGER NOT NULL REFERENCES keys (id) ON DELETE CASCADE, month TEXT NOT NULL,
        requests INTEGER NOT NULL, characters INTEGER NOT NULL, PRIMARY KEY (key_id, month)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO keys (name, label, digest, created_at) VALUES ('kiosk', 'aa', x'00', 'then'), ('office', 'bb', x'', '');
    INSERT INTO usage VALUES (1, '2025-12', 2, 15), (1, '2026-01', 3, 30), (2, '2026-01', 1, 7);
    """
_VERSION_2 = """
    CREATE TABLE charges (
        id INTEGER PRIMARY KEY AUTOINCREMENT, key_id INTEGER NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
        month TEXT NOT NULL, characters INTEGER NOT NULL, state TEXT NOT NULL, server INTEGER NOT NULL, request TEXT,
        expires_at INTEGER, resumptions INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX charges_of_streams ON charges (key_id, request) WHERE request IS NOT NULL;
    INSERT INTO charges (key_id, month, characters, state, server, request) VALUES
        (1, '2025-12', 5, 'open', 1, NULL), (1, '2026-01', 9, 'open', 1, 'text'), (1, '2026-01', 2, 'open', 2, NULL),
        (1, '2026-01', 4, 'paid', 1, 'text'), (1, '2026-01', 8, 'refunded', 1, 'text');
    """
_VERSION_3 = """
    CREATE TABLE clock (seconds REAL NOT NULL) STRICT;
    INSERT INTO clock VALUES (CAST(strftime('%s', 'now') AS REAL));
    """


_VERSION_4 = """
    DROP TABLE charges;
    DROP TABLE clock;
    CREATE TABLE secret (value BLOB NOT NULL) STRICT;
    INSERT INTO secret VALUES (x'00');
    """
_VERSIONS = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_file_of_an_earlier_version_is_brought_up_to_date(path: Path, version: int) -> None:
    """What a killed server has left open is given back, once; what was paid or refunded stays so."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript("".join(_VERSIONS[:version]) + f"PRAGMA user_version = {version}")
    expected = [10, 19] if version in (2, 3) else [15, 30]
    secrets = set()
    for _ in range(2):
        with closing(KeyStore(path)) as file:
            kiosk, office = file.list()
            assert [file.usage(kiosk, month) for month in ("2025-12", MONTH)] == expected
            assert file.usage(office, MONTH) == 7
            secrets.add(file.secret)
    assert len(secrets) == 1
    with closing(KeyStore(path)) as file, closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
        assert [name for (name,) in tables] == ["keys", "secret", "usage"]
        assert file.count(kiosk, MONTH, 5)
