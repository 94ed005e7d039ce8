"""A process that has imported all of `dragoman serve` and PyTorch: servers that are its forks start two seconds sooner.

Their processes, and how these are related, are real. Servers with another environment are started as users start them,
and so is every zygote after a server's first.
"""

import atexit
import gc
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from service.supervisor.fork_server import Zygote


class ForkedServer(subprocess.Popen[bytes]):
    """A server that is not a child of this process: its parent reports its end by a pipe."""

    def __init__(self, arguments: Sequence[str], ended: int) -> None:
        self._ended = os.fdopen(ended, "rb", buffering=0)
        self.args, self.returncode = arguments, None
        self._child_created = False  # there is none to reap
        self.pid = int(self._ended.readline())

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int(self._ended.readline())
            self._ended.close()
        status: int = self.returncode
        return status


def serve(flags: Sequence[str], log: IO[bytes], constants: Mapping[str, float]) -> ForkedServer | None:
    """Start `dragoman serve` in a session of its own; None if the environment is not the one of before the tests."""
    if _environment() != _ENVIRONMENT:
        return None  # modules may have read it
    arguments = ["serve", *flags]
    ended, reports = os.pipe()
    request = json.dumps([os.getcwd(), arguments, dict(constants)]).encode()
    socket.send_fds(_launched(), [request], [log.fileno(), reports])
    os.close(reports)
    return ForkedServer(arguments, ended)


def _environment() -> dict[str, str]:
    """Return all variables but those that pytest sets."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


_ENVIRONMENT = _environment()


@cache
def _launched() -> socket.socket:
    """Start the launcher; return the socket from which it reads requests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.system.launcher", str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
    theirs.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def main() -> None:
    """Fork a server for each request, until the tests close the socket."""
    gc.disable()
    import service.engine.loading
    import service.engine.loop
    import service.server.app
    import service.server.server
    import service.server.shutdown  # noqa: F401
    from service.cli.main import main as run_command
    from service.supervisor.fork_server import Zygote
    from tests.system.patched import set_constants

    gc.freeze()
    gc.enable()
    Zygote.launch = _fork_zygote  # type: ignore[assignment, method-assign]
    control = socket.socket(fileno=int(sys.argv[1]))
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 2)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG if request else 0)[0]:
                pass  # parents of servers that have ended
        if not request:
            return
        if os.fork() == 0:
            control.close()
            log, reports = descriptors
            directory, arguments, constants = json.loads(request)
            if pid := os.fork():
                os.close(log)
                _report_end(pid, reports)
            os.close(reports)
            os.setsid()
            os.chdir(directory)
            os.dup2(log, 2)
            os.close(log)
            sys.argv = ["dragoman", *arguments]
            set_constants(constants)
            run_command()
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _fork_zygote(zygote: "Zygote") -> None:
    """Fork the server's first zygote, which has imported PyTorch; it starts later ones by itself."""
    from service.engine.__main__ import main as run_engine
    from service.supervisor.forks import LaunchedProcess

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    if pid := os.fork():
        theirs.close()
        zygote._launched = LaunchedProcess(pid, ours, time.monotonic())
        return
    ours.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.argv = ["", str(theirs.detach()), *zygote._logs]
    os._exit(run_engine())


def _report_end(pid: int, reports: int) -> None:
    """Write a server's process id, and its exit status when it has ended; then end this process."""
    os.write(reports, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(reports, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


if __name__ == "__main__":
    main()
