import socket

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from model.beam_search import Inspection
from service.engine.generation_request import (
    Beam,
    Constraints,
    GenerationRequest,
    GivenTerm,
    Inspect,
    Prompt,
    Resume,
    Sampling,
    Search,
)
from service.engine.loop import SocketChannel
from service.engine.messages import (
    Alternative,
    Cancel,
    Frames,
    Ready,
    Report,
    StepReport,
    StepStats,
    Submit,
    TokenReport,
    frame,
)


@given(bodies=st.lists(st.binary(max_size=300), max_size=8), cuts=st.lists(st.integers(1, 50), max_size=40))
def test_messages_survive_any_chunking(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    frames = Frames()
    out: list[bytes] = []
    for cut in cuts:
        out += frames.feed(stream[:cut])
        stream = stream[cut:]
    assert out + frames.feed(stream) == bodies


def test_commands_and_reports_cross_a_socket() -> None:
    ours, theirs = socket.socketpair()
    channel = SocketChannel(theirs)
    request = GenerationRequest(
        Prompt([5, 2], [3]),
        Search(7, Sampling(0.5, 3, 0.9, 11), Beam(4, 0.6, 2)),
        Constraints(1.1, 3, [4], [GivenTerm(0, 1, [8])], [9]),
        Resume([4], [None]),
        Inspect(5, hypotheses=True),
    )
    ours.sendall(frame(Submit(1, request, 2.5)) + frame(Cancel(1)))
    assert channel.receive(wait=True) == [Submit(1, request, 2.5), Cancel(1)]
    assert channel.receive(wait=False) == []
    channel.send(Ready(123, "cpu"))
    assert ours.recv(100) == frame(Ready(123, "cpu"))
    last = TokenReport(
        1,
        2,
        -0.5,
        "stop",
        [Alternative([TokenReport(1, 5, -1.0, None, [], 3, Inspection([], None, [], []))], -1.0)],
        inspection=Inspection([(2, -0.5), (7, -1.5)], (0, 0.75), [0.75, 0.25], [[1.0], [1.0]]),
    )
    step = StepReport([last], StepStats(4, step_seconds=0.5))
    channel.send(step)
    [body] = Frames().feed(ours.recv(1000))
    assert msgspec.msgpack.decode(body, type=Report) == step
    ours.shutdown(socket.SHUT_WR)
    assert channel.receive(wait=True) is None
    ours.close()
    theirs.close()
