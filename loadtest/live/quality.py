"""Quality over latency: a test set is read to live sessions, a word at a time, with each policy."""

import asyncio
import lzma
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import sacrebleu

from loadtest.live.lagging import Translated, average_lagging, erasure
from service.api.context import ServiceContext
from service.api.live_messages import LiveStart
from service.composition import build_service
from service.live.events import Commit
from service.live.policies import PRESETS, Policy
from service.live.session import LiveSession
from service.settings import Settings
from service.translation.options import TranslationOptions

CURVE: Final = (
    *(Policy("align_att", 1, share) for share in (0.6, 0.4, 0.3, 0.2, 0.15, 0.1)),
    *(Policy("align_att", 2, share) for share in (0.5, 0.3, 0.2, 0.1)),
    *(Policy("local_agreement", count) for count in (2, 3)),
    *(Policy("wait_k", words) for words in (2, 3, 5)),
    Policy("sentence"),
)


class Pair(NamedTuple):
    source: str
    reference: str


class Score(NamedTuple):
    """The results of a policy; quality in per cent of that of whole sentences."""

    policy: Policy
    bleu: float
    chrf: float
    quality: float
    lagging: float
    adaptive_lagging: float
    erasure: float


class _Free:
    async def reach(self, end: int) -> None: ...

    async def close(self) -> None: ...


def read_pairs(file: Path, count: int) -> list[Pair]:
    """Return `count` lines of a test set, evenly from its beginning to its end."""
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        rows = [Pair(*line.rstrip("\n").split("\t")[:2]) for line in lines]
    return rows[:: max(len(rows) // count, 1)][:count]


@asynccontextmanager
async def served() -> AsyncIterator[ServiceContext]:
    """Start the embedded model's engines in this process's care, without a cache and without HTTP."""
    service = build_service(Settings(log_level="error", cache_mb=0, max_characters=10_000_000))
    service.library.start()
    await service.library.wait_until_tried()
    try:
        yield service
    finally:
        await service.library.stop()


async def whole_sentences(service: ServiceContext, pairs: Sequence[Pair]) -> list[str]:
    """Translate each line as a whole, greedily: what the quality of policies is compared with."""
    texts: list[str] = []
    for start in range(0, len(pairs), 500):
        sources = [pair.source for pair in pairs[start : start + 500]]
        translation = service.translator.start(sources, "en", "fr", TranslationOptions(timeout_seconds=3600))
        texts += [each.text for each in (await translation.finished()).translations]
        translation.close()
    return texts


async def grow(service: ServiceContext, pairs: Sequence[Pair], policy: Policy, at_once: int = 16) -> list[Translated]:
    """Read all pairs to sessions, so many at a time."""
    places = asyncio.Semaphore(at_once)
    request = LiveStart(source="en", target="fr").request("", 1)

    async def one(pair: Pair) -> Translated:
        async with places:
            name, session = await service.live.open(replace(request, policy=policy), _Free())
            try:
                return await _read_to(session, pair)
            finally:
                service.live.close(name)

    return await asyncio.gather(*map(one, pairs))


class _Screen:
    """The text that a client shows: committed text, which must only grow, and a draft."""

    def __init__(self) -> None:
        self.text = ""
        self.draft = ""

    async def read(self, session: LiveSession) -> None:
        """Follow the session to its end."""
        reader, known = session.log.attach(), 0
        while True:
            events, draft = await session.log.next(reader, known, self.draft)
            if not events and draft is None:
                return
            known += len(events)
            self.draft = "" if draft is None else draft.text
            for event in events:
                if isinstance(event, Commit):
                    assert event.index == len(self.text), "committed text was taken back"
                    self.text += event.text


async def _read_to(session: LiveSession, pair: Pair) -> Translated:
    words, screen = pair.source.split(), _Screen()
    reading = asyncio.create_task(screen.read(session))
    delays: list[int] = []
    shown: list[str] = []
    for number, word in enumerate(words, 1):
        session.append(word if number == len(words) else word + " ")
        if number == len(words):
            session.end()
            await reading
        await session.settled()
        await asyncio.sleep(0)  # the reader's turn
        delays += [number] * (len(screen.text.split()) - len(delays))
        shown.append(screen.text + screen.draft)
    return Translated(len(words), len(pair.reference.split()), screen.text, delays, shown)


def score(policy: Policy, translated: Sequence[Translated], pairs: Sequence[Pair], whole: Sequence[str]) -> Score:
    references = [[pair.reference for pair in pairs]]
    texts = [each.text for each in translated]
    bleu = sacrebleu.corpus_bleu(texts, references).score
    count = len(translated)
    return Score(
        policy,
        bleu,
        sacrebleu.corpus_chrf(texts, references).score,
        100 * bleu / sacrebleu.corpus_bleu(whole, references).score,
        sum(average_lagging(each, length_adaptive=False) for each in translated) / count,
        sum(average_lagging(each, length_adaptive=True) for each in translated) / count,
        sum(map(erasure, translated)) / count,
    )


def name_of(policy: Policy) -> str:
    """Return a policy with its parameters, and the latency that has it."""
    latency = next((f" ({name})" for name, preset in PRESETS.items() if preset == policy), "")
    share = f", {policy.share}" if policy.name == "align_att" else ""
    return f"{policy.name} {policy.words}{share}{latency}" if policy.words else policy.name
