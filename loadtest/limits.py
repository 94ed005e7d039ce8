"""Checks of a server at its limits, and what a translation costs; each prints JSON.

The commands are those of `python -m loadtest.promises`.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from statistics import median, quantiles
from typing import Annotated, Any, Final

import httpx
import typer

from loadtest.local_server import Server, read_metrics, run_server
from loadtest.sentences import LANGUAGES, SENTENCES
from loadtest.soak.wire import Answer, connect, new_id, post

_ANSWER_SECONDS: Final = 120.0
_SEED: Final = 1
_IN_OVERLOAD: Final = ("ok", "queue_full")
"""Outcomes that are allowed in an overload."""
_LEAST_TO_DRAIN: Final = 0.9
"""Share of the streams that must still run at SIGTERM: a check with fewer proves nothing."""

app = typer.Typer()
FlagsArgument = Annotated[list[str] | None, typer.Argument(help="Flags of the server, after --.")]
SentencesOption = Annotated[int, typer.Option(min=1, help="Sentences of a request.")]


@app.command()
def overload(  # noqa: PLR0913  each is an option of the command
    flags: FlagsArgument = None,
    times: Annotated[float, typer.Option(help="Offered load, in multiples of the peak.")] = 10,
    seconds: Annotated[float, typer.Option(min=1, help="Duration of each part; the first fifth is not counted.")] = 30,
    sentences: SentencesOption = 10,
    beam_size: Annotated[int, typer.Option(help="Beam width of each request; wide beams make requests expensive.")] = 4,
    max_waiting: Annotated[int, typer.Option(help="The server's queue, in slots.")] = 64,
    least_share: Annotated[float, typer.Option(help="Share of the peak that must still be answered.")] = 0.9,
    refused_within_ms: Annotated[float, typer.Option(help="Limit of the median refusal's time.")] = 50,
) -> None:
    """Find the peak in a closed loop, then offer many times as much; check goodput and the time of refusals."""
    rng = random.Random(_SEED)

    def body() -> dict[str, Any]:
        return {"q": _document(rng, sentences), **LANGUAGES, "beam_size": beam_size}

    with run_server(["--max-waiting", str(max_waiting), *(flags or [])]) as server:
        peak = asyncio.run(_closed_loop(server, body, max_waiting // (2 * beam_size), seconds))
        rate = times * peak
        answers, goodput = asyncio.run(_open_loop(server, body, rate, seconds, rng))
    outcomes = Counter(answer.outcome for answer, _ in answers)
    refused = [waited for answer, waited in answers if answer.outcome == "queue_full"]
    served = [waited for answer, waited in answers if answer.outcome == "ok"]
    problems = [f"{count} answers were {outcome}" for outcome, count in outcomes.items() if outcome not in _IN_OVERLOAD]
    if goodput < least_share * peak:
        problems.append(f"goodput is {goodput / peak:.2f} of the peak, the least is {least_share}")
    if not refused:
        problems.append("nothing was refused: that was no overload")
    elif median(refused) > refused_within_ms:
        problems.append(f"the median refusal takes {median(refused):.0f} ms, the limit is {refused_within_ms:g} ms")
    _print(
        {
            "peak_per_second": round(peak, 2),
            "offered_per_second": round(rate, 2),
            "goodput_per_second": round(goodput, 2),
            "goodput_share_of_peak": round(goodput / peak, 3),
            "outcomes": dict(outcomes),
            "refused_milliseconds": _spread(refused),
            "served_milliseconds": _spread(served),
            "request": {"sentences": sentences, "beam_size": beam_size},
            "problems": problems,
        }
    )
    if problems:
        raise typer.Exit(1)


@app.command()
def drain(
    flags: FlagsArgument = None,
    streams: Annotated[int, typer.Option(min=1, help="Streams that run at SIGTERM.")] = 200,
    sentences: SentencesOption = 6,
) -> None:
    """Send SIGTERM while streams run: each must get the text that it gets alone, and a later request a refusal."""
    rng = random.Random(_SEED)
    bodies = [{"q": _document(rng, sentences), **LANGUAGES, "stream": True} for _ in range(streams)]
    with run_server(flags or []) as server:
        alone = asyncio.run(_one_by_one(server, bodies))
        answers, late, unfinished, at_work, seconds = asyncio.run(_drained(server, bodies))
        status = server.stop()
    identical = sum(answer.translation == text for answer, text in zip(answers, alone, strict=True))
    outcomes = Counter(answer.outcome for answer in answers)
    _print(
        {
            "streams": streams,
            "streams_at_sigterm": unfinished,
            "sentences_at_work_at_sigterm": at_work,
            "outcomes": dict(outcomes),
            "same_text_as_alone": identical,
            "later_request": late.status,
            "drain_seconds": round(seconds, 2),
            "exit_status": status,
        }
    )
    was_busy = unfinished >= _LEAST_TO_DRAIN * streams
    all_right = outcomes == {"ok": streams} and identical == streams
    if not was_busy or not all_right or late.status != httpx.codes.SERVICE_UNAVAILABLE or status:
        raise typer.Exit(1)


@app.command()
def costs(
    flags: FlagsArgument = None,
    requests: Annotated[int, typer.Option(min=1, help="Requests of one sentence each.")] = 2000,
    in_flight: Annotated[int, typer.Option(min=1, help="Requests in flight at any time.")] = 32,
    stream: Annotated[bool, typer.Option(help="Translate as server-sent events.")] = True,
) -> None:
    """Translate sentences in a closed loop; print the processor time of the HTTP process and of the engines."""
    with run_server(flags or []) as server:
        figures = asyncio.run(_costs(server, requests, in_flight, stream))
    _print({"requests": requests, "in_flight": in_flight, "stream": stream} | figures)


def _document(rng: random.Random, sentences: int) -> str:
    return " ".join(rng.choices(SENTENCES, k=sentences))


async def _ask(server: Server, body: dict[str, Any]) -> Answer:
    async with connect(server.port) as connection:
        await connection.send(post(body, new_id()))
        return await connection.answer(_ANSWER_SECONDS)


async def _closed_loop(server: Server, body: Callable[[], dict[str, Any]], lanes: int, seconds: float) -> float:
    """Return the requests answered per second while `lanes` are always in flight."""
    started = time.monotonic()
    counted = 0

    async def lane() -> None:
        nonlocal counted
        while time.monotonic() < started + seconds:
            answer = await _ask(server, body())
            if answer.outcome != "ok":
                raise typer.BadParameter(f"{answer.outcome} in the closed loop: the queue is too short for it")
            counted += started + seconds / 5 < time.monotonic() < started + seconds

    await asyncio.gather(*(lane() for _ in range(max(2, lanes))))
    return counted / (0.8 * seconds)


async def _open_loop(
    server: Server, body: Callable[[], dict[str, Any]], rate: float, seconds: float, rng: random.Random
) -> tuple[list[tuple[Answer, float]], float]:
    """Return every answer with its time in ms, and the `ok` answers per second."""
    answers: list[tuple[Answer, float]] = []
    started = time.monotonic()
    counted = 0

    async def one() -> None:
        nonlocal counted
        sent = time.monotonic()
        answer = await _ask(server, body())
        answers.append((answer, 1000 * (time.monotonic() - sent)))
        counted += answer.outcome == "ok" and started + seconds / 5 < time.monotonic() < started + seconds

    at, running = started, []
    while at < started + seconds:
        running.append(asyncio.create_task(one()))
        at += rng.expovariate(rate)
        await asyncio.sleep(max(0.0, at - time.monotonic()))
    await asyncio.gather(*running)
    return answers, counted / (0.8 * seconds)


async def _one_by_one(server: Server, bodies: Sequence[dict[str, Any]]) -> list[str | None]:
    return [(await _ask(server, body)).translation for body in bodies]


async def _drained(server: Server, bodies: Sequence[dict[str, Any]]) -> tuple[list[Answer], Answer, int, int, float]:
    """Return every stream's and a later request's answer; streams and sentences at SIGTERM, and the drain's seconds."""
    begun = asyncio.Semaphore(0)

    async def one(body: dict[str, Any]) -> Answer:
        async with connect(server.port) as connection:
            await connection.send(post(body, new_id()))
            first = await connection.begun()
            begun.release()
            return await connection.answer(_ANSWER_SECONDS, first)

    running = [asyncio.create_task(one(body)) for body in bodies]
    for _ in bodies:
        await begun.acquire()
    at_work = await _at_work(server)
    unfinished = sum(not stream.done() for stream in running)
    started = time.monotonic()
    server.ask_to_stop()
    late = await _until_refused(lambda: _ask(server, bodies[0]))
    answers = await asyncio.gather(*running)
    return answers, late, unfinished, at_work, time.monotonic() - started


async def _at_work(server: Server) -> int:
    """Return the number of sentences that are decoded or wait for a slot."""
    async with httpx.AsyncClient(base_url=server.url) as client:
        metrics = await read_metrics(client)
    return int(metrics.total("dragoman_requests_running") + metrics.total("dragoman_requests_waiting"))


async def _until_refused(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat a request until it is refused, since a signal takes a moment to arrive."""
    while (answer := await ask()).outcome == "ok":
        pass
    return answer


async def _costs(server: Server, requests: int, in_flight: int, stream: bool) -> dict[str, Any]:
    texts = random.Random(_SEED).choices(SENTENCES, k=requests)

    async def lane(texts: Iterator[str]) -> None:
        for text in texts:
            answer = await _ask(server, {"q": text, **LANGUAGES, "stream": stream})
            if answer.outcome != "ok":
                raise RuntimeError(f"a request ended with {answer.outcome}")

    # The first requests pay for what is done once.
    await asyncio.gather(*(lane(iter(SENTENCES[:8])) for _ in range(4)))
    before, started, tokens = server.processor_seconds(), time.monotonic(), await server.generated_tokens()
    queue = iter(texts)
    await asyncio.gather(*(lane(queue) for _ in range(in_flight)))
    seconds = time.monotonic() - started
    http, *engines = (after - early for after, early in zip(server.processor_seconds(), before, strict=True))
    generated = await server.generated_tokens() - tokens
    characters, all_seconds = sum(map(len, texts)), http + sum(engines)
    return {
        "characters": characters,
        "generated_tokens": int(generated),
        "wall_seconds": round(seconds, 2),
        "http_core_seconds": round(http, 2),
        "engine_core_seconds": round(sum(engines), 2),
        "tokens_per_engine_core_second": round(generated / sum(engines)),
        "tokens_per_core_second": round(generated / all_seconds),
        "characters_per_core_second": round(characters / all_seconds),
        "requests_per_http_core_second": round(requests / http),
        "core_seconds_per_million_characters": round(1e6 * all_seconds / characters, 1),
    }


def _spread(milliseconds: Sequence[float]) -> dict[str, float] | None:
    if len(milliseconds) < 2:
        return None
    return {"median": round(median(milliseconds), 1), "p99": round(quantiles(milliseconds, n=100)[98], 1)}


def _print(result: dict[str, Any]) -> None:
    typer.echo(json.dumps(result, indent=1))
