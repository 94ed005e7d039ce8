"""Clients that hold a connection and give nothing for it, or take nothing; and what a server keeps of them all."""

import asyncio
import json
import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.system.conftest import KEEP_ALIVE, Server, shared_server
from tests.system.sentences import SENTENCES
from tests.system.sse import REQUEST, stream, text_of
from tests.waiting import until

HEAD = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
# Far more than the sockets hold, and no work for an engine.
COPIED = "1. 2. 3. 4. 5. 6. 7. 8. 9.\n" * 150_000

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts what Linux lists")


@asynccontextmanager
async def _connection(
    server: Server, *, slow: bool = False
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    plain = socket.socket()
    plain.setblocking(False)
    if slow:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", server.port))
    reader, writer = await asyncio.open_connection(sock=plain, limit=2048 if slow else 1 << 16)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _descriptors(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


async def _until_descriptors(server: Server, expected: int) -> None:
    await until(lambda: _descriptors(server) <= expected)


# A server with the least patience, and room for large texts.
impatient = shared_server("--client-timeout-seconds", "3", "--max-characters", "5000000", constants={KEEP_ALIVE: 1.0})


def _request(text: str, *, streams: bool = True, headers: bytes = b"") -> bytes:
    body = httpx.Request("POST", "http://a", json={"q": text, **REQUEST, "stream": streams}).content
    return HEAD + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def test_who_does_not_finish_a_request_is_cut(impatient: Server) -> None:
    """However busily it sends; and if a whole request was among it, that is answered."""
    whole = _request("I see a cat.")
    answers = await asyncio.gather(
        _until_cut(impatient, b"", b""),
        _until_cut(impatient, HEAD, b""),
        _until_cut(impatient, HEAD, b"X-Number: 1\r\n"),
        _until_cut(impatient, whole[:-5], b""),
        _until_cut(impatient, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n[\r\n"),
        _until_cut(impatient, whole, b"\r\n"),
    )
    assert [b"event: done" in answer for answer in answers] == [False] * 5 + [True]


async def _until_cut(server: Server, begun: bytes, trickled: bytes) -> bytes:
    """Send `begun`, then `trickled` every tenth of a second; return the server's response."""
    received = b""
    async with _connection(server) as (reader, writer), asyncio.timeout(30):
        writer.write(begun)
        with suppress(ConnectionError):
            while not reader.at_eof():
                try:
                    async with asyncio.timeout(0.1):
                        received += await reader.read(1 << 16)
                except TimeoutError:
                    writer.write(trickled)
    return received


@pytest.mark.parametrize("begun", [HEAD, HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"])
async def test_headers_and_trailers_without_end_are_refused(server: Server, begun: bytes) -> None:
    async def send_headers(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"X: " + b"y" * 9000 + b"\r\n")
            await writer.drain()

    async with _connection(server) as (_, writer), asyncio.timeout(30):
        writer.write(begun)
        with pytest.raises(ConnectionError):
            await send_headers(writer)


@pytest.mark.parametrize("size", [1000, 200_000])
async def test_a_body_in_chunks_may_be_larger_than_headers(impatient: Server, size: int) -> None:
    body = httpx.Request("POST", "http://a", json={"q": COPIED[:600_000], **REQUEST, "stream": False}).content

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    async with httpx.AsyncClient(base_url=impatient.url, timeout=60) as client:
        headers = {"Content-Type": "application/json"}
        answer = await client.post("/translate", content=chunks(), headers=headers)
    assert answer.status_code == 200, answer.text


async def test_a_stream_that_is_silent_for_longer_is_not_cut(impatient: Server) -> None:
    """The reader would take more data, and its request is complete."""
    text = " ".join(SENTENCES)
    async with httpx.AsyncClient(base_url=impatient.url, timeout=60) as client:
        expected = text_of(await stream(client, text))
        async with client.stream("POST", "/translate", json={"q": text, **REQUEST}) as response:
            lines = response.aiter_lines()
            received = [await anext(lines)]
            [engine] = impatient.engine_pids()
            os.kill(engine, signal.SIGSTOP)
            try:
                while received.count(": keep-alive") < 5:
                    received.append(await anext(lines))
            finally:
                os.kill(engine, signal.SIGCONT)
            received += [line async for line in lines]
    tokens = [json.loads(line.removeprefix("data: ")) for line in received if line.startswith("data: ")]
    assert "".join(token["text"] for token in tokens if "logprob" in token) == expected
    assert received.count("event: done") == 1


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "JSON"])
async def test_who_takes_nothing_is_cut(impatient: Server, streams: bool) -> None:
    """A stream counts as cancelled; a whole answer was given away when it was written."""
    before = _descriptors(impatient)
    outcome = 'endpoint="/translate",outcome="cancelled"' if streams else 'endpoint="/translate",outcome="ok"'
    outcomes = impatient.metric("dragoman_requests_total", outcome)
    async with _connection(impatient, slow=True) as (_, writer):
        writer.write(_request(COPIED, streams=streams))
        await writer.drain()
        await asyncio.to_thread(impatient.wait_for_metric, "dragoman_requests_total", outcomes + 1, outcome, 30)
        await _until_descriptors(impatient, before)
    assert "Traceback" not in impatient.log.read_text()


async def test_who_takes_nothing_is_cut_while_the_system_takes_everything(impatient: Server) -> None:
    """The system's buffers would hold the whole stream, and its slots would be held to its end."""
    outcome = 'endpoint="/translate",outcome="cancelled"'
    cancelled = impatient.metric("dragoman_requests_total", outcome)
    async with _connection(impatient, slow=True) as (_, writer):
        writer.write(_request(" ".join(SENTENCES) * 12))
        await writer.drain()
        await asyncio.to_thread(impatient.wait_for_metric, "dragoman_requests_total", cancelled + 1, outcome, 60)
    await asyncio.to_thread(impatient.wait_for_metric, "dragoman_slots_used", 0)


async def test_who_takes_little_gets_everything(impatient: Server) -> None:
    """A whole answer may take much longer than a reader may take nothing."""
    taken, end = 0, b""
    async with _connection(impatient, slow=True) as (reader, writer):
        writer.write(_request(COPIED, headers=b"Connection: close\r\n"))
        while piece := await reader.read(1 << 16):
            taken += len(piece)
            end = (end + piece)[-100:]
            if taken < 1 << 19:
                await asyncio.sleep(0.01)
    assert taken > 2 * len(COPIED)
    assert end.endswith(b"0\r\n\r\n")


async def test_large_and_broken_requests_leave_nothing_behind(impatient: Server) -> None:
    """No descriptor, no task, no thread, and no heap full of holes."""

    async def stuck(_: httpx.AsyncClient) -> None:
        async with _connection(impatient, slow=True) as (_reader, writer):
            writer.write(_request(COPIED))
            await writer.drain()
            await asyncio.sleep(5)

    async def large(client: httpx.AsyncClient) -> None:
        for number in range(1, 10, 2):
            body = {"q": COPIED[: 300_000 * number], **REQUEST, "stream": False}
            assert (await client.post("/translate", json=body)).status_code == 200

    async def crowd(*larger: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
        async with impatient.client() as client:
            small = [stream(client, sentence) for sentence in SENTENCES[:80]]
            await asyncio.gather(*small, *(each(client) for each in larger))
        await _until_descriptors(impatient, before)

    def left() -> tuple[float, float, int]:
        """Bytes in memory, tasks and threads."""
        scrape = impatient.scrape()
        memory, tasks = (impatient.sample(scrape, name) for name in ("process_resident_memory_bytes", "dragoman_tasks"))
        return memory, tasks, len(os.listdir(f"/proc/{impatient.process.pid}/task"))

    before = _descriptors(impatient)
    await crowd()
    memory, tasks, threads = await asyncio.to_thread(left)
    for _ in range(2):
        await crowd(large, stuck, stuck)
    memory_now, tasks_now, threads_now = await asyncio.to_thread(left)
    assert (tasks_now, threads_now) == (tasks, threads)
    assert memory_now < 1.1 * memory


@pytest.mark.parametrize("megabytes", [3, 30])
def test_who_sends_too_much_and_reads_last_sees_why(server: Server, megabytes: int) -> None:
    """`urllib` sends all before it reads anything, and never reads after a failed send."""
    request = urllib.request.Request(
        f"{server.url}/translate", b"x" * (megabytes << 20), {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request, timeout=30)
    with raised.value as answer:
        assert answer.code == 413


async def test_chunks_of_one_byte_are_refused(server: Server) -> None:
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    async with _connection(server) as (reader, writer), asyncio.timeout(30):
        writer.write(head + b"1\r\n \r\n" * 10_000)
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the chunks are too small" in answer


@pytest.mark.parametrize("path", [b"/nosuch", b"/translate"])
async def test_no_more_than_a_limit_is_read_after_the_response(server: Server, path: bytes) -> None:
    head = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 1000000000\r\n\r\n" % path
    async with _connection(server) as (reader, writer), asyncio.timeout(30):
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b"connection: close" in answer.lower()
        sent = 0
        with suppress(ConnectionError):
            while sent < 100 << 20:
                writer.write(b"x" * (1 << 20))
                await writer.drain()
                sent += 1 << 20
        assert sent < 80 << 20


async def test_who_leaves_with_requests_in_a_pipeline_leaves_no_error(server: Server) -> None:
    before = len(server.log.read_text())
    for _ in range(4):
        async with _connection(server) as (_, writer):
            writer.write(b"GET /spec HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    log = server.log.read_text()[before:]
    assert [line for line in log.splitlines() if "handler is closed" in line or "completing response" in line] == []


async def test_no_100_continue_is_written_after_the_answer_to_a_broken_request(server: Server) -> None:
    """The answer has ended the sending side."""
    before = server.log.read_text().count('"ERROR"')
    async with _connection(server) as (reader, writer):
        writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}\x00\x01\r\n\r\n")
        assert b"400 Bad Request" in await reader.read()
        await asyncio.sleep(0.2)
    assert server.log.read_text().count('"ERROR"') == before
