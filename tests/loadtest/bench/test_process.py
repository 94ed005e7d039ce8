"""The memory of a peer and its descendants."""

import subprocess
import sys

import pytest

from loadtest.bench.process import memory
from tests.system.conftest import children


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_the_highest_and_the_present_and_of_the_descendants_too() -> None:
    program = "import sys; held = b'x' * 50_000_000; del held; print(flush=True); sys.stdin.read()"
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", inner], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        both = memory(process.pid)
        of_child = memory(*children(process.pid))
        process.communicate()

    assert of_child is not None
    assert both is not None
    assert of_child.peak > 50_000_000 > of_child.resident
    assert both.peak > of_child.peak + 2_000_000
    assert both.resident > of_child.resident + 2_000_000
