"""The memory of a peer and its descendants."""

import subprocess
import sys

from loadtest.bench.process import memory
from tests.system.conftest import children


def test_memory_is_of_the_descendants_too() -> None:
    program = "import sys; held = b'x' * 50_000_000; print(flush=True); sys.stdin.read()"
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", inner], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        both = memory(process.pid)
        of_child = memory(*children(process.pid))
        process.communicate()

    assert of_child > 50_000_000
    assert both > of_child + 2_000_000
