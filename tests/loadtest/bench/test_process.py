"""Peers in processes of their own: answers, failures and memory come back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.bench.peers import WrongLength
from loadtest.bench.process import PeerDied, memory, peer_process
from loadtest.bench.roster import prepare
from loadtest.bench.workload import Request, make_requests
from tests.loadtest.bench.toy import COMPARISON, TOY

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
def test_a_failure_is_reported_and_a_death_is_noticed(tmp_path: Path) -> None:
    prepare(["dragoman"], TOY, tmp_path)
    [request] = make_requests(1, TOY, seed=0)
    with peer_process("dragoman", COMPARISON, tmp_path) as peer:
        with pytest.raises(WrongLength, match="dragoman: "):
            peer.closed_loop([Request(request.source_ids, request.new_tokens + 1)], 1)
        assert peer.closed_loop([request], 1).tokens == request.new_tokens
        for pid in map(int, _children(os.getpid())):
            if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, 9)
        with pytest.raises(PeerDied, match="dragoman"):
            peer.closed_loop([request], 1)


def _children(pid: int) -> list[str]:
    return [child for group in Path(f"/proc/{pid}/task").glob("*/children") for child in group.read_text().split()]


@linux
def test_memory_is_the_highest_and_the_present_and_of_the_descendants_too() -> None:
    program = "import sys; held = b'x' * 50_000_000; del held; print(flush=True); sys.stdin.read()"
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", inner], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        both = memory(process.pid)
        [child] = _children(process.pid)
        of_child = memory(int(child))
        process.communicate()

    assert of_child is not None
    assert both is not None
    assert of_child.peak > 50_000_000 > of_child.resident
    assert both.peak > of_child.peak + 2_000_000
    assert both.resident > of_child.resident + 2_000_000
