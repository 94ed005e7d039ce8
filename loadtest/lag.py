"""How far a beam's stream lags behind a greedy one, in steps and milliseconds: `python -m loadtest.lag --help`."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import httpx
import typer
from httpx_sse import aconnect_sse
from rich.progress import track

from loadtest.local_server import read_sentences, run_server
from loadtest.sentences import LANGUAGES


class Heard(NamedTuple):
    """One stream."""

    token_seconds: list[float]
    """From the request to each token."""
    steps_behind: list[int]
    """Of each token behind its place in its sentence: where the request has `hypotheses`."""
    at_the_end: int
    """Tokens that came with the end of their sentence."""


def main(
    file: Annotated[Path, typer.Argument(help="A sentence a line, or source<TAB>reference; plain or .xz.")],
    flags: Annotated[list[str] | None, typer.Argument(help="Behind --: the server's flags.")] = None,
    count: Annotated[int, typer.Option(min=2, help="Lines, one after the other.")] = 200,
    beam_size: Annotated[int, typer.Option(min=2, help="Of the beam.")] = 4,
) -> None:
    """Each line greedily and with a beam, alone on the server; and once more with a look at the beam's steps.

    A greedy stream's n-th token comes with the n-th step. That of a beam comes when all hypotheses that can still win
    agree on it, or with the sentence's end.
    """
    try:
        sentences = read_sentences(file, count)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    with run_server(["--replicas", "1", *(flags or [])]) as server:
        greedy, beam, watched = asyncio.run(_hear(server.url, sentences, beam_size))
    behind = [steps for each in watched for steps in each.steps_behind]
    at_the_end = sum(each.at_the_end for each in watched) / len(behind)
    typer.echo(f"steps behind a greedy stream: {_spread(behind)}; {at_the_end:.0%} of the tokens come with the end")
    for name, streams in (("a greedy stream", greedy), (f"a beam of {beam_size}", beam)):
        typer.echo(f"first token of {name}: {_spread([1000 * each.token_seconds[0] for each in streams])} ms")
    # Translations may differ in length.
    later = [
        1000 * (theirs - ours)
        for one, other in zip(greedy, beam, strict=True)
        for ours, theirs in zip(one.token_seconds, other.token_seconds, strict=False)
    ]
    typer.echo(f"a beam's n-th token after a greedy stream's: {_spread(later)} ms")


async def _hear(url: str, sentences: Sequence[str], beam_size: int) -> tuple[list[Heard], list[Heard], list[Heard]]:
    searches: list[dict[str, Any]] = [{}, {"beam_size": beam_size}, {"beam_size": beam_size, "hypotheses": True}]
    heard: tuple[list[Heard], list[Heard], list[Heard]] = ([], [], [])
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for search in searches:
            await _stream(client, sentences[0], search)  # what is made at its first use
        for sentence in track(sentences, "listening"):
            for search, streams in zip(searches, heard, strict=True):
                streams.append(await _stream(client, sentence, search))
    return heard


async def _stream(client: httpx.AsyncClient, sentence: str, search: dict[str, Any]) -> Heard:
    started = time.monotonic()
    seconds: list[float] = []
    behind: list[int] = []
    step = at_the_end = new = 0
    body = {"q": sentence, **LANGUAGES, "stream": True, **search}
    async with aconnect_sse(client, "POST", "/translate", json=body) as source:
        async for event in source.aiter_sse():
            if event.event == "hypotheses":
                step, new = event.json()["step"], 0
            elif event.event == "token":
                seconds.append(time.monotonic() - started)
                behind.append(step - event.json()["index"] - 1)
                new += 1
            elif event.event == "segment":
                # A sentence's last step leaves no live hypothesis to tell of.
                start = len(behind) - new
                behind[start:] = [steps + 1 for steps in behind[start:]]
                at_the_end += new
    return Heard(seconds, behind, at_the_end)


def _spread(values: Sequence[float]) -> str:
    cuts = statistics.quantiles(values, n=100)
    return f"median {cuts[49]:.1f}, p90 {cuts[89]:.1f}, p99 {cuts[98]:.1f}"


if __name__ == "__main__":
    typer.run(main)
