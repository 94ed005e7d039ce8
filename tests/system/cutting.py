"""A TCP proxy that cuts connections where a test wants it."""

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator, Sequence


class CuttingProxy:
    """Each connection carries as many bytes of the answer as the next of `cuts` says; later ones carry all.

    `reset` cuts as a crash does, otherwise the connection is closed in good order.
    """

    def __init__(self, port: int, cuts: Sequence[int], *, reset: bool) -> None:
        self._target = ("127.0.0.1", port)
        self._cuts = iter(cuts)
        self._reset = reset
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                thread = threading.Thread(target=self._carry, args=(client, next(self._cuts, None)))
                self._threads.append(thread)
                thread.start()

    def _carry(self, client: socket.socket, left: int | None) -> None:
        # In one thread: a socket that another thread reads from is not closed before that one returns.
        with client, socket.create_connection(self._target) as server, contextlib.suppress(OSError):
            while left != 0:
                ready, _, _ = select.select([client, server], [], [])
                for origin, destination, limit in ((client, server, None), (server, client, left)):
                    if origin not in ready:
                        continue
                    if not (data := origin.recv(65536 if limit is None else min(limit, 65536))):
                        return
                    destination.sendall(data)
                    if origin is server and left is not None:
                        left -= len(data)
            if self._reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        # Closing alone does not wake up `accept`.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


@contextlib.contextmanager
def cutting_proxy(port: int, cuts: Sequence[int], *, reset: bool) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(port, cuts, reset=reset)
    try:
        yield proxy
    finally:
        proxy.close()
