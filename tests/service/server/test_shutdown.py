"""A process whose shutdown hangs, whatever hangs in it."""

import subprocess
import sys

import pytest

_SCRIPT = """
import signal, subprocess, sys, threading, time
from service.server import shutdown

shutdown.GRACE_SECONDS, shutdown._LAST_SECONDS = 0.3, 3  # a loop leaves its thread little of the interpreter
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
deadline = shutdown.ShutdownDeadline()
shutdown.end_at_sigterm(deadline)
print(child.pid, flush=True)
{hang}
"""
_HANGS = {
    "a thread": "threading.Thread(target=time.sleep, args=(1000,)).start(); deadline.start()",
    "the main thread, after the signal": """
try:
    signal.raise_signal(signal.SIGTERM)
finally:
    time.sleep(1000)
""",
    "a loop": "deadline.start()\nwhile True: pass",
    "a full log": """
import logging, os
reading, writing = os.pipe()
os.set_blocking(writing, True)
os.dup2(writing, 2)
deadline.start()
os.write(writing, b"x" * 65_536)
time.sleep(1000)
""",
}


def _run(hang: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", _SCRIPT.format(hang=hang)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("hang", _HANGS.values(), ids=_HANGS)
def test_a_process_that_hangs_ends_with_its_children(hang: str) -> None:
    """The child has the other end of the output: only with its death does the output end, and the run."""
    done = _run(hang)
    assert done.returncode == 1
    assert done.stdout.strip().isdigit()


def test_what_hangs_is_named() -> None:
    done = _run("def waits_for_ever(): time.sleep(1000)\ndeadline.start()\nwaits_for_ever()")
    assert "the shutdown takes too long" in done.stderr
    assert "waits_for_ever" in done.stderr


def test_code_that_never_lets_python_run_ends_too() -> None:
    """A regular expression holds the interpreter's lock until it has come to an end, here in about an hour."""
    hang = "import re\ndeadline.start()\nre.match('(a*)*b', 'a' * 40)"
    # Its child is not ended, since no code runs that could: it holds none of these pipes.
    script = _SCRIPT.format(hang=hang).replace('time.sleep(1000)"]', 'time.sleep(0)"]')
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1


def test_a_start_that_is_interrupted_tidies_up() -> None:
    hang = """
try:
    signal.raise_signal(signal.SIGTERM)
finally:
    child.kill()
    child.wait()
    print("tidy", flush=True)
"""
    done = _run(hang)
    assert (done.returncode, done.stdout.split()[-1]) == (143, "tidy")
