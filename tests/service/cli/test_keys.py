"""`dragoman keys`: commands as people type them, and their output."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service.access.async_key_store import this_month
from service.access.key_store import KeyLimits, KeyStore
from service.cli.main import app


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGOMAN_KEYS", str(tmp_path / "keys.db"))
    return tmp_path / "keys.db"


def _keys(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["keys", *arguments])


def test_a_key_s_life(path: Path) -> None:
    limits = ("--requests-per-minute", "60", "--characters-per-minute", "9000", "--streams", "4")
    added = _keys("add", "kiosk", *limits, "--characters-per-month", "500000")
    assert added.exit_code == 0
    key = added.stdout.strip()
    with closing(KeyStore(path)) as file:
        found = file.find(key)
        assert found is not None
        assert found.limits == KeyLimits(60, 9000, 500_000, 4)
        assert file.count(found, this_month(), 1234)
    listed = _keys("list").stdout
    for shown in ("kiosk", "60", "9,000", "1,234"):
        assert shown in listed
    [line] = _keys("list", "--json").stdout.splitlines()
    assert json.loads(line)["usage"] == {"characters": 1234}
    assert key not in listed + line
    assert _keys("remove", "kiosk").exit_code == 0
    assert _keys("list", "--json").stdout == ""


def test_a_list_is_cut_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    name = "a customer with a name that goes on for as long as a line of a terminal, and longer"
    assert _keys("add", name, "--characters-per-minute", "123456789").exit_code == 0
    assert _keys("add", "kiosk").exit_code == 0
    headings, *lines = _keys("list").stdout.splitlines()
    columns = ["name", "key", "requests/min", "characters/min", "streams", f"characters in {this_month()}"]
    assert re.split("  +", headings) == columns
    assert [line.split("  ")[0] for line in lines] == [name, "kiosk"]
    for column in columns:
        place = headings.index(column)
        assert all(line[place - 1] == " " != line[place] for line in lines if place), "in columns"


def test_the_option_goes_before_the_variable(path: Path) -> None:
    other = path.with_name("other.db")
    assert _keys("add", "kiosk", "--keys", str(other)).exit_code == 0
    assert other.exists()
    assert not path.exists()


def test_what_is_wrong_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, message in (
        (("list",), "keys.db: there is no such file"),
        (("remove", "kiosk"), "keys.db: there is no such file"),
        (("add", "kiosk", "--streams", "0"), "--streams"),
        (("add", "kiosk", "--keys", str(path.parent / "no" / "keys.db")), "unable to open database file"),
    ):
        result = _keys(*arguments)
        assert result.exit_code == 2
        assert message in result.stderr
    _keys("add", "kiosk")
    assert "there is a key of this name" in _keys("add", "kiosk").stderr
    assert "there is no key of this name" in _keys("remove", "office").stderr
    monkeypatch.delenv("DRAGOMAN_KEYS")
    assert "DRAGOMAN_KEYS" in _keys("list").stderr
    monkeypatch.setenv("DRAGOMAN_OFFLINE", "maybe")
    assert _keys("list").stderr.startswith("dragoman: offline: ")


def test_a_server_says_what_is_wrong_with_its_keys(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The configuration would outlive the standard error of the test.
    monkeypatch.setattr("service.process.logs.configure", lambda *_: None)
    path.write_text("This is no database, but a text that is long enough to be looked at. " * 20)
    result = CliRunner().invoke(app, ["serve"])
    assert (result.exit_code, result.stderr) == (2, f"dragoman: {path}: file is not a database\n")
    path.unlink()
    missing = CliRunner().invoke(app, ["serve"])
    assert missing.exit_code == 2
    assert missing.stderr.startswith(f"dragoman: {path}: there is no such file")
