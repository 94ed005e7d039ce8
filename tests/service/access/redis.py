"""A real redis-server, where there is one."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.conftest import free_port

needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="SKIPPED: no redis-server; limits in Redis are not tested"
)


class RedisServer:
    def __init__(self, process: "subprocess.Popen[bytes]", url: str) -> None:
        self.process = process
        self.url = url

    def freeze(self) -> None:
        """Accept connections, and answer nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def run_redis(directory: Path) -> Iterator[RedisServer]:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert any(b"Ready to accept connections" in line for line in process.stdout)
        yield RedisServer(process, f"redis://127.0.0.1:{port}/0")
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
