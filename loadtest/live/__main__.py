"""`python -m loadtest.live speakers` and `safety`: see docs/live.md."""

import argparse
import asyncio

from loadtest.live.speakers import speak, try_hard
from loadtest.local_server import run_server


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
    command = commands.add_parser("speakers")
    command.add_argument("--speakers", type=int, default=100)
    command.add_argument("--rate", type=float, default=150, help="words a minute")
    command.add_argument("--seconds", type=float, default=30)
    command = commands.add_parser("safety")
    command.add_argument("--sessions", type=int, default=20)
    command.add_argument("--updates", type=int, default=100_000)
    given = parser.parse_args()
    if given.command == "safety":
        return _safety(given.sessions, given.updates)
    _speakers(given.speakers, given.rate, given.seconds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
