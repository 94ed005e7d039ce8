"""The processes of a server, even when processes in between have died."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from loadtest.local_server import Server

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks where Linux lists processes")


def test_an_engine_is_known_when_its_fork_server_is_gone() -> None:
    script = "(sleep 600 & echo $!; wait) & wait; read line"
    process = subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    with process:
        assert process.stdout is not None
        engine = int(process.stdout.readline())
        server = Server(process, "")
        try:
            assert server.engines() == [engine]
            [fork_server] = server.fork_servers()
            os.kill(fork_server, signal.SIGKILL)
            deadline = time.monotonic() + 30
            while server.fork_servers():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert server.engines() == [engine]
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_child_that_nobody_waits_for_is_a_zombie_and_no_engine() -> None:
    """A process whose parent is lost does not count: whoever adopts it is no process of the server."""
    script = "(true & exec sleep 600) & true & exec sleep 600"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as process:
        server = Server(process, "")
        try:
            deadline = time.monotonic() + 30
            while len(server.processes().zombies) != 2:
                assert time.monotonic() < deadline, server.processes()
                time.sleep(0.01)
            seen = server.processes()
            [fork_server] = seen.fork_servers
            assert {each.parent for each in seen.zombies} == {process.pid, fork_server.pid}
            assert seen.engines == []
            assert 0 < fork_server.resident_megabytes < 10
            os.kill(fork_server.pid, signal.SIGKILL)
            while server.fork_servers():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert {each.parent for each in server.processes().zombies} == {process.pid}
        finally:
            os.killpg(process.pid, signal.SIGKILL)
