"""The program that loads a model and forks its engine processes: `python -m service.engine CONTROL OPTIONS`.

CONTROL is a socket's descriptor. A byte received on it is the number of a replica, and comes with the end of a channel
for its commands and reports; the reply is the id of its process.
"""

import contextlib
import ctypes
import errno
import gc
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from service.engine.channel import SocketChannel, frame
from service.engine.messages import EngineOptions, Failed, Forked, Loaded
from service.process import logs

_OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
_OOM_STEP: Final = 200
_OOM_MOST: Final = 1000


class _Replica(NamedTuple):
    number: int
    channel: SocketChannel


def main() -> None:
    """Run until the HTTP process closes the socket; in a fork, until it closes the channel."""
    # Signals can reach the whole process group; when to stop is the HTTP process's decision. Before
    # anything slow is imported, so that Ctrl-C at the start is not answered with a traceback.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _prefer_as_oom_victim()
    control = socket.socket(fileno=int(sys.argv[1]))
    options = msgspec.json.decode(sys.argv[2], type=EngineOptions)
    logs.configure(options.log_level)
    from model.checkpoint_config import CheckpointError

    try:
        _check_unchanged(options)  # before torch is imported, which takes seconds
        # Import before the fork: a module imported afterwards is not shared between engines.
        from service.engine.loading import load, serve
        from service.engine.loop import OBJECTS_BETWEEN_COLLECTIONS

        model = load(options)
        _check_unchanged(options)  # they may have been replaced in the meantime
    except (CheckpointError, RuntimeError) as error:
        _send(control, Failed(str(error), checkpoint=isinstance(error, CheckpointError)))
        sys.exit(1)
    _return_unused_memory()
    gc.freeze()  # these objects stay: collecting them again and again takes a twentieth of a beam's step
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        _send(control, Loaded())
        replica = _next_replica(control, forks=options.forks)
    except ConnectionError:
        replica = None
    if replica is not None:
        sys.exit(serve(model, replica.number, replica.channel))


def _check_unchanged(options: EngineOptions) -> None:
    """Raise `CheckpointError` if files are missing or differ from those that the HTTP process has read."""
    from model.checkpoint_config import CheckpointError, content_id

    checkpoint = Path(options.checkpoint)
    if options.content_id and content_id(checkpoint) != options.content_id:
        raise CheckpointError(
            f"{checkpoint}: its files have changed since the server read them; restore them, or restart the server"
        )


def _next_replica(control: socket.socket, *, forks: bool) -> _Replica | None:
    """Return the replica in every fork, or else the first one; None when the HTTP process has closed the socket."""
    as_before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps forks that have ended
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            with contextlib.suppress(ChildProcessError):
                os.wait()  # until all of them have ended
            return None
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
            _prefer_as_oom_victim()
            return _Replica(number, SocketChannel(socket.socket(fileno=descriptor)))
        os.close(descriptor)


def _send(control: socket.socket, reply: Loaded | Failed | Forked) -> None:
    control.sendall(frame(reply))


def _prefer_as_oom_victim() -> None:
    """Have the kernel kill this process before its parent when memory runs out: an engine is replaced, the HTTP process
    is not."""
    with contextlib.suppress(OSError):
        score = int(_OOM_SCORE.read_text())
        _OOM_SCORE.write_text(str(min(score + _OOM_STEP, _OOM_MOST)))


def _return_unused_memory() -> None:
    """Return memory that loading took and that is not needed any more; glibc would keep it."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


if __name__ == "__main__":
    main()
