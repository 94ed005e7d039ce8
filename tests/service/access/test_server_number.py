"""Each running server of a key file has a number of its own; the system frees it however the process ends."""

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from service.access.key_store import KeysError
from service.access.server_number import ServerNumber
from service.process.interpreter import python_command

_PROGRAM = """
import sys
from pathlib import Path
from service.access.server_number import ServerNumber
print(ServerNumber(Path(sys.argv[1])).value, flush=True)
sys.stdin.read()
"""


def test_numbers_are_the_lowest_that_are_free(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with closing(ServerNumber(path)) as first, closing(ServerNumber(path)) as second:
        assert (first.value, second.value) == (1, 2)
        with closing(ServerNumber(tmp_path / "other.db")) as other:
            assert other.value == 1
    with closing(ServerNumber(path)) as again:
        assert again.value == 1


def test_a_killed_server_has_ended_and_one_that_runs_has_not(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    command = python_command("-c", _PROGRAM, str(path))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"1\n"
        with closing(ServerNumber(path)) as mine:
            with mine.ended([1, 2, 3]) as ended:
                assert ended == [2, 3]
            server.kill()
            server.wait()
            with mine.ended([1]) as ended, closing(ServerNumber(path)) as third:
                assert ended == [2, 1]
                assert third.value == 3, "a number that is being reconciled is free only afterwards"
            with mine.ended([]) as ended:
                assert ended == [2]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeysError, match=r"missing/keys\.db-server-1: no such file or directory"):
        ServerNumber(tmp_path / "missing" / "keys.db")
