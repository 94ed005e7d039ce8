"""`python -m loadtest.live quality FILE`, `drafts FILE`, `speakers` and `safety`: see docs/live.md."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from loadtest.live.drafts import cost_of
from loadtest.live.quality import CURVE, Score, grow, name_of, read_pairs, score, served, whole_sentences
from loadtest.live.speakers import row, speak, table, try_hard
from loadtest.local_server import run_server
from service.live.policies import PRESETS, Policy


async def _quality(file: Path, count: int, policies: Sequence[Policy], picture: Path | None) -> None:
    pairs = read_pairs(file, count)
    columns = ("policy", "BLEU", "of whole sentences", "chrF", "AL", "LAAL", "erasure of what is shown")
    print(table([columns]))
    scores = []
    async with served() as service:
        whole = await whole_sentences(service, pairs)
        for policy in policies:
            scores.append(each := score(policy, await grow(service, pairs, policy), pairs, whole))
            figures = (f"{each.bleu:.1f}", f"{each.quality:.1f} %", f"{each.chrf:.1f}", f"{each.lagging:.2f}")
            print(row((name_of(policy), *figures, f"{each.adaptive_lagging:.2f}", f"{each.erasure:.2f}")), flush=True)
    if picture is not None:
        _draw(scores, picture)


def _draw(scores: Sequence[Score], picture: Path) -> None:
    figure = Figure(figsize=(7, 4.5))
    axes = figure.subplots()
    curves: dict[str, list[tuple[float, float]]] = {}
    for each in scores:
        name, words, _ = each.policy
        if name == "sentence":
            continue  # far behind all others
        label = f"{name} {words}" if name == "align_att" else name
        curves.setdefault(label, []).append((each.adaptive_lagging, each.quality))
    for label, points in curves.items():
        axes.plot(*zip(*sorted(points), strict=True), "o-", label=label)
    axes.set(xlabel="LAAL in words", ylabel="BLEU in % of whole sentences", xlim=(2, 9))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(picture, bbox_inches="tight")


async def _drafts(file: Path, count: int) -> None:
    pairs = read_pairs(file, count)
    async with served() as service:
        without, with_drafts = [await cost_of(service, pairs, with_drafts=each) for each in (False, True)]
    print(table([
        ("drafts", "steps an update", "engine's processor time an update"),
        ("without", f"{without.steps:.2f}", f"{without.milliseconds:.2f} ms"),
        ("with", f"{with_drafts.steps:.2f}", f"{with_drafts.milliseconds:.2f} ms"),
    ]))  # fmt: skip
    print("same texts:", without.texts == with_drafts.texts)


def _speakers(speakers: int, rate: float, seconds: float) -> None:
    with run_server([]) as server:
        waits = asyncio.run(speak(server.url, speakers, rate, seconds))
    figures = ", ".join(f"p{each} {1000 * waits.percentile(each / 100):.0f} ms" for each in (50, 90, 99))
    share = f"{len(waits.seconds)} of {waits.words} words with an event before the next one"
    print(f"{speakers} speakers at {rate:.0f} words a minute, {share}: {figures}")


def _safety(sessions: int, updates: int) -> int:
    with run_server([]) as server:
        outcome = asyncio.run(try_hard(server, sessions, updates))
    print(outcome)
    return 1 if outcome.taken_back or outcome.missing else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.live", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("quality", "drafts"):
        command = commands.add_parser(name)
        command.add_argument("file", type=Path, help="a test set: English, tab, French, compressed by xz")
        command.add_argument("--count", type=int, default=500, help="sentences, evenly from the set")
        if name == "quality":
            command.add_argument("--presets", action="store_true", help="only the policies of the three latencies")
            command.add_argument("--picture", type=Path, help="a file for the curve")
    command = commands.add_parser("speakers")
    command.add_argument("--speakers", type=int, default=100)
    command.add_argument("--rate", type=float, default=150, help="words a minute")
    command.add_argument("--seconds", type=float, default=30)
    command = commands.add_parser("safety")
    command.add_argument("--sessions", type=int, default=20)
    command.add_argument("--updates", type=int, default=100_000)
    given = parser.parse_args()
    match given.command:
        case "quality":
            policies = tuple(PRESETS.values()) if given.presets else CURVE
            asyncio.run(_quality(given.file, given.count, policies, given.picture))
        case "drafts":
            asyncio.run(_drafts(given.file, given.count))
        case "speakers":
            _speakers(given.speakers, given.rate, given.seconds)
        case _:
            return _safety(given.sessions, given.updates)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
