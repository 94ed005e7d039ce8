"""The program of all processes that engines are forks of, and of engines.

It is `python -m service.engine CONTROL LOG_LEVEL LOG_FORMAT`.

First it is the zygote, which imports PyTorch and the operators. A fork of the zygote is the fork server of a model, and
a fork of that is an engine. CONTROL is a socket's descriptor. A byte received on it is a number, and comes with the end
of a channel for the fork; the reply is the fork's process id. With `alone` as a last argument nothing is forked: the
process itself becomes the fork server of the first model and its first engine.
"""

import contextlib
import ctypes
import errno
import gc
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import msgspec

from service.engine.messages import EngineOptions, Failed, Forked, Frames, Loaded, frame
from service.process import logs

if TYPE_CHECKING:
    from service.engine.loading import LoadedModel
    from service.engine.thread_lending import Lenders

logger = logging.getLogger(__name__)

_OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
_OOM_STEP: Final = 200
_OOM_MOST: Final = 1000
_NAME: Final = Path("/proc/self/comm")
_READ_BYTES: Final = 1 << 16


class _Fork(NamedTuple):
    number: int
    channel: socket.socket


def main() -> int:
    """Run until the HTTP process closes the socket; in a fork, until it closes the fork's channel.

    Returns the exit status of the process.
    """
    # Signals can reach the whole process group; when to stop is the HTTP process's decision. Before
    # anything slow is imported, so that Ctrl-C at the start is not answered with a traceback.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    forks = "alone" not in sys.argv
    control, log_level, log_format = socket.socket(fileno=int(sys.argv[1])), *sys.argv[2:4]
    logs.configure(log_level, log_format)
    _become("zygote")
    gc.disable()  # hardly anything that is imported and loaded is garbage; looking for it takes a tenth of the time
    try:
        # Import before the fork: a module imported afterwards is not shared between engines.
        from service.engine.loading import prepare, serve
        from service.engine.loop import OBJECTS_BETWEEN_COLLECTIONS

        lenders = prepare(shared=forks)
    except RuntimeError as error:
        _fail(control, error)
    if (fork := _next_fork(control, forks=forks)) is None:
        return 0
    _become("model")
    model = _load(fork.channel, lenders)
    if (replica := _next_fork(fork.channel, forks=forks)) is None:
        return 0
    _become("engine")
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    gc.enable()
    return serve(model, replica.number, replica.channel)


def _load(control: socket.socket, lenders: "Lenders | None") -> "LoadedModel":
    """Load the model of the options that the HTTP process sends first."""
    from model.checkpoint_config import CheckpointError
    from service.engine.loading import load

    frames = Frames()
    while not (received := frames.feed(data := control.recv(_READ_BYTES))):
        if not data:
            sys.exit(0)
    options = msgspec.msgpack.decode(received[0], type=EngineOptions)
    try:
        _check_unchanged(options)
        model = load(options, lenders)
        _check_unchanged(options)  # they may have been replaced in the meantime
    except (CheckpointError, RuntimeError) as error:
        _fail(control, error)
    return model


def _fail(control: socket.socket, error: Exception) -> NoReturn:
    from model.checkpoint_config import CheckpointError

    _send(control, Failed(str(error), checkpoint=isinstance(error, CheckpointError)))
    sys.exit(1)


def _check_unchanged(options: EngineOptions) -> None:
    """Raise `CheckpointError` if files are missing or differ from those that the HTTP process has read."""
    from model.checkpoint_config import CheckpointError, content_id

    checkpoint = Path(options.checkpoint)
    if options.content_id and content_id(checkpoint) != options.content_id:
        raise CheckpointError(
            f"{checkpoint}: its files have changed since the server read them; restore them, or restart the server"
        )


def _next_fork(control: socket.socket, *, forks: bool) -> _Fork | None:
    """Say that everything is loaded; return in every fork, or in this process if none is forked.

    Returns None when the HTTP process has closed the socket and all forks have ended.
    """
    _return_unused_memory()
    gc.freeze()  # these objects stay: collecting them again and again takes a twentieth of a beam's step
    as_before = signal.signal(signal.SIGCHLD, _reap)
    try:
        _send(control, Loaded())
        while True:
            message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not message:
                break
            try:
                if not descriptors:
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # there was no room for it
                pid = os.fork() if forks else os.getpid()
            except OSError as error:
                for descriptor in descriptors:
                    os.close(descriptor)
                _send(control, Failed(f"no engine process could be forked: {error.strerror}"))
                continue
            [number], [descriptor] = message, descriptors
            if pid > 0:
                _send(control, Forked(pid))
            if pid == 0 or not forks:
                signal.signal(signal.SIGCHLD, as_before)
                control.close()
                return _Fork(number, socket.socket(fileno=descriptor))
            os.close(descriptor)
    except ConnectionError:
        pass  # the HTTP process has died
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()  # until all of them have ended
    return None


def _reap(_: int, frame: FrameType | None) -> None:
    """Reap forks that have ended, and say which ones were killed: nobody else knows."""
    # A RuntimeError is that of a log line which this signal has interrupted.
    with contextlib.suppress(ChildProcessError, RuntimeError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            if os.WIFSIGNALED(status):
                number = os.WTERMSIG(status)
                hint = ": out of memory?" if number == signal.SIGKILL else ""
                logger.error("process %d was killed by signal %d%s", pid, number, hint)


def _become(kind: str) -> None:
    """Name this process for `ps` and `top`, and let memory run out here first.

    The kernel kills an engine before its parents, and those before the HTTP process: an engine is replaced soonest.
    """
    with contextlib.suppress(OSError):
        _NAME.write_text(f"dragoman-{kind}")
    with contextlib.suppress(OSError):
        score = int(_OOM_SCORE.read_text())
        _OOM_SCORE.write_text(str(min(score + _OOM_STEP, _OOM_MOST)))


def _send(control: socket.socket, reply: Loaded | Failed | Forked) -> None:
    control.sendall(frame(reply))


def _return_unused_memory() -> None:
    """Return memory that loading took and that is not needed any more; glibc would keep it."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


if __name__ == "__main__":
    # Taking the modules of PyTorch apart takes half a second in each process, and the next waits for it.
    os._exit(main())
