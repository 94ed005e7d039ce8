"""The memory of the HTTP process, where the C library is glibc."""

import ctypes
import gc
import re
import subprocess
import weakref

import pytest

from service.process.interpreter import python_command
from service.server.server import _collect_garbage

_SCRIPT = """
import ctypes, sys, threading
from service.server.server import _keep_memory_small

if sys.argv[1] == "small":
    _keep_memory_small()
kept = []
barrier = threading.Barrier(5)

def allocate():
    barrier.wait()
    kept.append(bytes(5000))
    barrier.wait()  # a thread that ends leaves its heap to others

for _ in range(4):
    threading.Thread(target=allocate).start()
barrier.wait()
barrier.wait()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="not glibc")
@pytest.mark.parametrize(("kind", "one"), [("small", True), ("as it is", False)])
def test_all_threads_share_one_heap(kind: str, one: bool) -> None:
    done = subprocess.run(python_command("-c", _SCRIPT, kind), capture_output=True, text=True, check=True)
    assert (len(re.findall("<heap nr=", done.stdout)) == 1) == one


class _Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_old_garbage_is_looked_for_while_nobody_waits() -> None:
    gc.disable()
    try:
        gc.collect()
        cycle = _Cycle()
        for _ in range(12):
            gc.collect(1)
        garbage = weakref.ref(cycle)
        del cycle
        _collect_garbage(is_idle=False)
        assert garbage() is not None
        _collect_garbage(is_idle=True)
        assert garbage() is None
    finally:
        gc.enable()
