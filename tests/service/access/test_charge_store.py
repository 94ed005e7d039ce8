"""Charges in the file: what counts, what is refunded, what may be resumed, and what a killed server leaves."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from service.access import charge_store
from service.access.charge_store import ChargeStore, PaidStream, Payer, Resumption
from service.access.key_store import _VERSIONS, KeyLimits, KeyStore, Usage
from service.access.stream_credits import RESUMPTIONS

MONTH = "2026-01"
STREAM = PaidStream("text", 60.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.db"
    KeyStore(path, create=True).close()
    return path


@pytest.fixture
def file(path: Path) -> Iterator[ChargeStore]:
    with closing(ChargeStore(path, 1)) as opened:
        yield opened


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of all processes, which a test may advance."""
    clock = [50_000.0]
    monkeypatch.setattr("service.access.charge_store.time.monotonic", lambda: clock[0])
    return clock


def _payer(file: KeyStore, limit: int | None = None, name: str = "kiosk") -> Payer:
    key = file.find(file.add(name, KeyLimits(characters_per_month=limit)))
    assert key is not None
    return Payer(key, MONTH)


def _rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        [count] = database.execute("SELECT count(*) FROM charges").fetchone()
    assert isinstance(count, int)
    return count


def _charged(file: ChargeStore, payer: Payer, stream: PaidStream | None = STREAM, characters: int = 9) -> int:
    charge = file.charge(payer, characters, stream)
    assert charge is not None
    return charge


def test_a_quota_is_used_up_to_its_last_character(file: ChargeStore) -> None:
    payer = _payer(file, limit=10)
    assert file.charge(payer, 11) is None
    assert file.charge(payer, 6)
    assert file.charge(payer, 5) is None
    last = _charged(file, payer, None, 4)
    assert file.usage(payer.key, MONTH) == Usage(2, 10)
    assert file.charge(payer._replace(month="2026-02"), 10)
    file.refund(last)
    assert file.usage(payer.key, MONTH) == Usage(1, 6)


def test_without_a_quota_everything_is_counted(file: ChargeStore) -> None:
    payer = _payer(file)
    assert file.charge(payer, 10**12)
    assert file.charge(payer, 1)
    assert file.usage(payer.key, MONTH) == Usage(2, 10**12 + 1)


def test_a_key_that_is_removed_meanwhile_is_charged_no_more(file: ChargeStore, path: Path) -> None:
    payer = _payer(file)
    running = _charged(file, payer)
    file.remove("kiosk")
    assert file.charge(payer, 1) is None
    assert file.resume(payer, 9, STREAM) is None
    file.settle(running)
    file.refund(running)
    assert _rows(path) == 0


def test_servers_that_share_a_file_share_the_quota(file: ChargeStore, path: Path) -> None:
    payer = _payer(file, limit=150)

    def charge_all(server: int) -> int:
        with closing(ChargeStore(path, server)) as mine:
            return sum(mine.charge(payer, 1) is not None for _ in range(100))

    with ThreadPoolExecutor(2) as threads:
        charged = list(threads.map(charge_all, (2, 3)))
    assert sum(charged) == 150
    assert file.usage(payer.key, MONTH) == Usage(150, 150)


def test_what_is_answered_leaves_no_row_unless_it_may_be_resumed(file: ChargeStore, path: Path) -> None:
    payer = _payer(file)
    file.settle(_charged(file, payer, None))
    assert _rows(path) == 0
    file.settle(_charged(file, payer))
    assert _rows(path) == 1
    assert file.usage(payer.key, MONTH) == Usage(2, 18)


def test_a_part_is_refunded(file: ChargeStore, path: Path) -> None:
    payer = _payer(file)
    file.refund(_charged(file, payer), sent=4)
    assert file.usage(payer.key, MONTH) == Usage(1, 4)
    assert file.resume(payer, 9, STREAM) is None
    assert _rows(path) == 0


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_paid_stream_is_resumed_by_its_key_a_bounded_number_of_times(file: ChargeStore, is_settled: bool) -> None:
    payer, other = _payer(file), _payer(file, name="office")
    charge = _charged(file, payer)
    if is_settled:
        file.settle(charge)
    assert file.resume(other, 9, STREAM) is None
    assert file.resume(payer, 9, PaidStream("other text", 60.0)) is None
    for _ in range(RESUMPTIONS):
        assert file.resume(payer, 9, STREAM) == Resumption(charge, is_charged_again=False)
    assert file.resume(payer, 9, STREAM) is None
    file.undo_resumption(charge)
    assert file.resume(payer, 9, STREAM) is not None
    assert file.usage(payer.key, MONTH) == Usage(1, 9)
    # Each further payment is good for as many.
    again = _charged(file, payer)
    for _ in range(RESUMPTIONS):
        assert file.resume(payer, 9, STREAM) == Resumption(again, is_charged_again=False)
    assert file.resume(payer, 9, STREAM) is None


def test_a_payment_that_a_resumption_has_used_is_not_refunded(file: ChargeStore) -> None:
    payer = _payer(file)
    charge = _charged(file, payer)
    assert file.resume(payer, 9, STREAM)
    file.refund(charge)
    assert file.usage(payer.key, MONTH) == Usage(1, 9)
    assert file.resume(payer, 9, STREAM) == Resumption(charge, is_charged_again=False)


def test_it_is_good_for_five_minutes_after_the_deadline_and_then_deleted(
    clock: list[float], file: ChargeStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payer = _payer(file)
    file.settle(_charged(file, payer))
    clock[0] += 359
    assert file.resume(payer, 9, STREAM)
    clock[0] += 2
    assert file.resume(payer, 9, STREAM) is None
    monkeypatch.setattr(charge_store, "_SWEEP_SECONDS", 0.0)
    file.refund(_charged(file, payer, None))
    assert _rows(path) == 0


def _lose(file: ChargeStore) -> None:
    for lost in file.lost(1):
        file.refund_lost(lost.charge_id)


def test_what_a_killed_server_was_translating_is_refunded(file: ChargeStore, path: Path) -> None:
    payer = _payer(file)
    file.settle(_charged(file, payer, PaidStream("answered", 60.0)))
    file.settle(_charged(file, payer, None))
    _charged(file, payer, None)
    _charged(file, payer)
    with closing(ChargeStore(path, 2)) as other:
        _charged(other, payer, None)
        assert sorted(file.open_servers()) == [1, 2]
    assert [each.request for each in file.lost(1)] == [None, "text"]
    _lose(file)
    assert file.usage(payer.key, MONTH) == Usage(3, 27)
    assert file.open_servers() == [2]


def test_a_lost_stream_is_charged_again_when_it_is_resumed_whatever_the_quota_is(file: ChargeStore) -> None:
    payer = _payer(file, limit=15)
    charge = _charged(file, payer)
    _lose(file)
    assert file.usage(payer.key, MONTH) == Usage(0, 0)
    _charged(file, payer, None)
    assert file.resume(payer, 9, STREAM, only_refunded=True) == Resumption(charge, is_charged_again=True)
    assert file.usage(payer.key, MONTH) == Usage(2, 18)
    # It is a payment like others: it is refunded with the next server, or if it fails.
    assert file.resume(payer, 9, STREAM, only_refunded=True) is None
    _lose(file)
    assert file.usage(payer.key, MONTH) == Usage(0, 0)
    assert file.resume(payer, 9, STREAM) == Resumption(charge, is_charged_again=True)
    file.refund(charge)
    assert file.usage(payer.key, MONTH) == Usage(0, 0)
    assert file.resume(payer, 9, STREAM) is None


def test_a_stream_that_ends_after_its_resumption_was_lost_is_paid(file: ChargeStore, path: Path) -> None:
    """The stream was resumed on another server before its own noticed the break; then the other one was killed."""
    payer = _payer(file)
    broken_off = _charged(file, payer)
    with closing(ChargeStore(path, 2)) as other:
        assert other.resume(payer, 9, STREAM) == Resumption(broken_off, is_charged_again=False)
        for lost in other.lost(2):
            other.refund_lost(lost.charge_id)
        assert file.usage(payer.key, MONTH) == Usage(0, 0)
        file.settle(broken_off)
        assert file.usage(payer.key, MONTH) == Usage(1, 9)
        assert other.resume(payer, 9, STREAM) == Resumption(broken_off, is_charged_again=False)
        file.settle(broken_off)
    assert file.usage(payer.key, MONTH) == Usage(1, 9)


def test_the_next_process_goes_on_where_the_clock_of_the_file_stands(
    clock: list[float], file: ChargeStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks of the machine may say anything then."""
    monkeypatch.setattr(charge_store, "_SWEEP_SECONDS", 0.0)
    payer = _payer(file)
    paid = _charged(file, payer)
    file.settle(paid)
    clock[0] += 300
    _charged(file, payer, None)
    clock[0] = 10.0  # that of another boot
    with closing(ChargeStore(path, 2)) as other:
        clock[0] += 50
        assert other.resume(payer, 9, STREAM) == Resumption(paid, is_charged_again=False)
        clock[0] += 5
        assert other.resume(payer, 9, STREAM)
        clock[0] += 10
        assert other.resume(payer, 9, STREAM) is None


def test_servers_that_share_a_file_share_its_clock(clock: list[float], file: ChargeStore, path: Path) -> None:
    """Each advances it by the time that has passed, and not by what the others have added."""
    payer = _payer(file)
    with closing(ChargeStore(path, 2)) as other:
        paid = _charged(other, payer)
        other.settle(paid)
        for _ in range(36):
            clock[0] += 9.9
            assert file.resume(payer, 9, STREAM) == other.resume(payer, 9, STREAM) == Resumption(paid, False)
            file.undo_resumption(paid)
            other.undo_resumption(paid)
        clock[0] += 9.9
        assert file.resume(payer, 9, STREAM) is None


def test_a_stream_that_is_resumed_on_another_server_is_not_lost_with_the_first(file: ChargeStore, path: Path) -> None:
    payer = _payer(file)
    charge = _charged(file, payer)
    with closing(ChargeStore(path, 2)) as other:
        assert other.resume(payer, 9, STREAM)
        assert file.lost(1) == []
        other.settle(charge)
    assert file.usage(payer.key, MONTH) == Usage(1, 9)


def test_a_file_of_the_version_without_charges_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(_VERSIONS[0])
        database.execute("PRAGMA user_version = 1")
        database.execute("INSERT INTO keys (name, label, digest, created_at) VALUES ('kiosk', 'aa', x'00', 'then')")
        database.execute("INSERT INTO usage VALUES (1, ?, 3, 30)", (MONTH,))
        database.commit()
    with closing(ChargeStore(path, 1)) as file:
        [key] = file.list()
        assert file.usage(key, MONTH) == Usage(3, 30)
        assert file.charge(Payer(key, MONTH), 5, STREAM)


def test_a_file_of_the_version_without_a_clock_keeps_its_charges(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("".join(_VERSIONS[:2]))
        database.execute("PRAGMA user_version = 2")
        database.execute("INSERT INTO keys (name, label, digest, created_at) VALUES ('kiosk', 'aa', x'00', 'then')")
        database.execute(
            """INSERT INTO charges (key_id, month, characters, state, server, request, expires_at)
            VALUES (1, ?, 9, 'paid', 1, 'text', strftime('%s', 'now') + 100)""",
            (MONTH,),
        )
        database.commit()
    with closing(ChargeStore(path, 1)) as file:
        [key] = file.list()
        assert file.resume(Payer(key, MONTH), 9, STREAM)
        clock[0] += 101
        assert file.resume(Payer(key, MONTH), 9, STREAM) is None
