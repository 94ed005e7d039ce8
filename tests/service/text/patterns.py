"""Texts made to be slow to split: `python -m tests.service.text.patterns --help`.

Splitting, and placing tags in a translation, have to take time in proportion to the length of the text, and health
checks have to be answered meanwhile.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

import httpx
import typer

from loadtest.local_server import Server, run_server
from loadtest.sentences import LANGUAGES
from service.text.html.splitter import split_html
from service.text.html.tag_placement import place_marks
from service.text.segment import Aligned, Segment
from service.text.splitter import Splitter

PATTERNS: Final = (
    *"\"`«“('x猫ก-&😀\t\n",
    *("<?", "‹!", "?!", "Mr. ", "A.", "A. ", "a.b ", "1. ", ", ", "word ", "「", "。", "猫。", "\u0301"),
    *("猫{x}", "x{a}", "{{", "%s", "a@b.", "@a", "://", "http://a(", "www.a", "[A"),
    *("<!--", "<b>", "</b>", "<b></b>", "<b>a</b> ", "<i>a", "<p>x", "<b>猫", "<code>x</code>a ", "<div translate=no>"),
    *("{x}a<b>", "猫<b>{x}</b>", '<img alt="a b">', "“a.” "),
    *(
        "<br>",
        "a<br>",
        "a <b></b>",
        "<a href=x>a</a> ",
        "<a href=x></a>",
        "<i><b>a</b></i> ",
        "</b>a<b>",
        "&amp;",
        "&x",
    ),
    *("x" * 1999 + " ", "x" + " " * 1999, "x" * 2001 + " " * 4000, "x" * 2001 + "猫{x}" * 200),
)
"""Repeated to any length: quotation marks without an end, text without a place to cut, tags and terms side by side."""
_MOST_TOKENS: Final = 400  # characters stand for tokens here: what matters is that there is a limit
_CHARACTERS: Final = (6_250, 12_500, 25_000, 50_000)
_SHORTEST_SECONDS: Final = 0.01
"""Less is noise."""

_WORD: Final = re.compile(r"\s*\S+|\s+")


def _placed(text: str, splitter: Splitter) -> Iterator[object]:
    """Place the tags of each sentence in a translation that repeats its words."""
    for segment in split_html(text, "en", splitter):
        if segment.marks:
            words = [Aligned(word[0], word.end() - len(word[0].lstrip())) for word in _WORD.finditer(segment.sentence)]
            yield place_marks(segment.sentence, segment.marks, words)


Work = Callable[[str, Splitter], Iterator[object]]
WORK: Final[dict[str, Work]] = {
    "text": lambda text, splitter: splitter.split(text, "en"),
    "html": lambda text, splitter: split_html(text, "en", splitter),
    "placed tags": _placed,
}
_FORMATS: Final = ("text", "html")


def repeat(pattern: str, characters: int) -> str:
    """Return a text of about so many characters."""
    return pattern * max(1, characters // len(pattern))


def fits(segment: Segment) -> bool:
    """Stand in for a model that reads a limited number of tokens."""
    return len(segment.model_input().text) <= _MOST_TOKENS


def main(
    flags: Annotated[list[str] | None, typer.Argument(help="Flags of the server, after --.")] = None,
    growth: Annotated[float, typer.Option(help="Most by which the time may grow when the text doubles.")] = 2.2,
    at_once: Annotated[int, typer.Option(min=0, help="Requests at the same time; 0 starts no server.")] = 8,
    seconds: Annotated[float, typer.Option(help="Time for which each pattern is requested.")] = 2,
    health_ms: Annotated[float, typer.Option(help="Most that a health check may take meanwhile.")] = 250,
) -> None:
    """Double each pattern in length up to 50,000 characters, and check a server's health while it translates them."""
    times = {f"{kind} {pattern[:12]!r}": _times(pattern, work) for kind, work in WORK.items() for pattern in PATTERNS}
    grown = {name: round(_growth(each), 2) for name, each in times.items()}
    slowest = max(times, key=lambda name: times[name][-1])
    problems = [f"{name}: time grows {each} times a doubling" for name, each in grown.items() if each > growth]
    result: dict[str, Any] = {
        "largest_growth": max(grown.values()),
        "slowest": {slowest: f"{1000 * times[slowest][-1]:.0f} ms at {_CHARACTERS[-1]} characters"},
    }
    if at_once:
        with run_server(flags or []) as server:
            health = asyncio.run(_health(server, at_once, seconds))
        problems += [f"{name}: /livez took {each:.0f} ms" for name, each in health.items() if each > health_ms]
        slow = sorted(health, key=health.__getitem__, reverse=True)[:3]
        result["slowest_health_checks_ms"] = {name: round(health[name]) for name in slow}
    typer.echo(json.dumps(result | {"problems": problems}, indent=1, ensure_ascii=False))
    raise typer.Exit(bool(problems))


def _times(pattern: str, work: Work) -> list[float]:
    """Return the processor time for each length, the best of three."""
    return [min(_seconds(repeat(pattern, length), work) for _ in range(3)) for length in _CHARACTERS]


def _seconds(text: str, work: Work) -> float:
    started = time.thread_time()
    for _ in work(text, Splitter(fits)):
        pass
    return time.thread_time() - started


def _growth(times: list[float]) -> float:
    """Return the mean growth of a doubling."""
    first, last = (max(each, _SHORTEST_SECONDS) for each in (times[0], times[-1]))
    return float((last / first) ** (1 / (len(times) - 1)))


async def _health(server: Server, at_once: int, seconds: float) -> dict[str, float]:
    """Return the slowest health check beside each pattern, in milliseconds."""
    slowest: dict[str, float] = {}
    for kind in _FORMATS:
        for pattern in PATTERNS:
            body = {"q": repeat(pattern, _CHARACTERS[-1]), **LANGUAGES, "format": kind, "stream": True}
            async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
                asked = [asyncio.create_task(_read(client, body)) for _ in range(at_once)]
                slowest[f"{kind} {pattern[:12]!r}"] = await _slowest_check(server, seconds)
                for each in asked:
                    each.cancel()
                await asyncio.gather(*asked, return_exceptions=True)
    return slowest


async def _read(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    async with client.stream("POST", "/translate", json=body) as response:
        async for _ in response.aiter_raw():
            pass


async def _slowest_check(server: Server, seconds: float) -> float:
    slowest = 0.0
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            started = time.monotonic()
            (await client.get("/livez")).raise_for_status()
            slowest = max(slowest, time.monotonic() - started)
            await asyncio.sleep(0.01)
    return 1000 * slowest


if __name__ == "__main__":
    typer.run(main)
