"""Sessions over a decoder that writes each word in capitals: the rules of commits, corrections and ends."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from service.errors import EngineFailed, InvalidRequest, NotReady, QueueFull, ServiceError
from service.live import event_log
from service.live import session as module
from service.live.account import LiveAccount
from service.live.decoding import Committed, Decoder, Sentence
from service.live.events import Commit, Draft, Ended, Event, Kept, Revision, Segment
from service.live.policies import Hypothesis, Policy, Token
from service.live.session import LiveObserver, LiveSession, Options, Start
from service.text.segment import Segment as TextSegment
from service.translation.preprocess import EncodedSegment

ACCOUNT = cast(LiveAccount, None)
"""Nobody counts what these sessions read."""


@dataclass
class Capitals(Decoder):
    """Translates a word at a time; the word that a text ends with gets a letter more, until it is not the last."""

    errors: list[ServiceError] = field(default_factory=list)
    seconds: float = 0.0
    texts: list[str] = field(default_factory=list)
    cancelled: int = 0

    def sentence(self, text: str) -> Sentence | None:
        if not text:
            return None
        end = text.find(". ") + 2
        first = text[:end] if end > 1 else text
        return Sentence(first, EncodedSegment(0, None, TextSegment("", first, ""), [1]), len(text) > len(first))

    async def hypothesis(
        self, sentence: Sentence, committed: Committed, draft: Sequence[Token], *, is_finished: bool
    ) -> Hypothesis:
        self.texts.append(sentence.text)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.errors:
            raise self.errors.pop()
        words = sentence.text.split()
        written = [word.upper() for word in words]
        if not is_finished:
            written[-1] += "X"
        rest = written[len(committed.text.split()) :]
        starts = [sentence.text.find(word) for word in words]
        tokens = [
            Token(hash(word), (" " if number or committed.text else "") + word, place)
            for number, (word, place) in enumerate(zip(rest, starts[len(words) - len(rest) :], strict=True))
        ]
        if is_finished:
            tokens.append(Token(0, " "))
        return Hypothesis(tokens, starts)

    async def revision(self, sentence: Sentence) -> str:
        return sentence.text.title()


@asynccontextmanager
async def _opened(
    decoder: Capitals | None = None,
    policy: Policy | None = None,
    start: Start = Start(),  # noqa: B008  it cannot be changed
    committed: str = "",
    observer: LiveObserver = LiveObserver(),  # noqa: B008  it does nothing
    **options: bool,
) -> AsyncIterator[LiveSession]:
    chosen = Options(policy or Policy("align_att", 1, 0.2), "en", **options)
    session = LiveSession(decoder or Capitals(), chosen, ACCOUNT, start, Committed(text=committed), observer)
    yield session
    session.close()


async def _settled(session: LiveSession) -> None:
    async with asyncio.timeout(10):
        await session.settled()


def _committed(session: LiveSession) -> str:
    return "".join(event.text for event in session.log._events if isinstance(event, Commit))


async def _grown(session: LiveSession, *changes: str) -> str:
    for change in changes:
        session.append(change)
        await _settled(session)
    return _committed(session)


async def test_words_are_committed_behind_the_source() -> None:
    async with _opened() as session:
        assert await _grown(session, "the ", "cat ", "sle") == "THE CAT"
        assert session.log._draft.text == " SLEX"
        assert await _grown(session, "eps. ") == "THE CAT SLEEPS. "
        [segment] = (event for event in session.log._events if isinstance(event, Segment))
        assert segment == Segment(0, "the cat sleeps. ", "THE CAT SLEEPS. ", 16)
        assert session.log._draft.text == ""


async def test_a_full_stop_at_the_end_may_move_until_white_space_follows() -> None:
    async with _opened() as session:
        assert await _grown(session, "I see a.") == "I SEE"
        session.replace(7, " cat")
        assert await _grown(session, "") == "I SEE A"
        session.finish()
        assert await _grown(session, "") == "I SEE A CAT "


async def test_the_sentence_policy_commits_sentences() -> None:
    async with _opened(policy=Policy("sentence")) as session:
        assert await _grown(session, "the cat ", "sleeps") == ""
        assert await _grown(session, ". The") == "THE CAT SLEEPS. "


async def test_a_correction_keeps_what_is_committed_and_says_so() -> None:
    async with _opened() as session:
        await _grown(session, "one two three ")
        session.replace(0, "six seven eight nine ")
        assert await _grown(session, "") == "ONE TWO EIGHT"
        assert [event for event in session.log._events if isinstance(event, Kept)] == [Kept(0, 8)]


async def test_the_end_is_reported_last() -> None:
    async with _opened(revises=True) as session:
        session.append("one two. three")
        session.end()
        await _settled(session)
        *_, revision, ended = session.log._events
        assert (revision, ended) == (Revision(1, "Three"), Ended(2, 14, len("ONE TWO. THREE ")))
        assert await session.log.next(session.log.attach(), len(session.log._events), "") == ([], None)


async def test_another_server_goes_on_where_the_first_one_was() -> None:
    async with _opened(start=Start(100, 7, 53), committed="THE CAT") as session:
        await _grown(session, "the cat sleeps well ")
        assert list(session.log._events) == [Commit(7, 53, " SLEEPS", 115)]


async def test_a_text_without_marks_is_cut() -> None:
    async with _opened() as session:
        for number in range(500):
            session.append(f"word{number}{',' if number % 20 == 19 else ''} ")
            await _settled(session)
        words = [len(event.source.split()) for event in session.log._events if isinstance(event, Segment)]
        assert words == [40] * 12
        assert max(map(len, (event.source for event in session.log._events if isinstance(event, Segment)))) < 500


async def test_a_thousand_changes_are_a_few_updates() -> None:
    decoder = Capitals(seconds=0.001)
    async with _opened(decoder) as session:
        for number in range(1000):
            session.append(f"{number} ")
            if number % 100 == 0:
                await asyncio.sleep(0)
        await _settled(session)
        assert len(decoder.texts) < 50


async def test_an_overtaken_update_is_cancelled_but_not_twice_in_a_row() -> None:
    decoder, overtakes = Capitals(seconds=0.02), list[bool]()
    async with _opened(decoder, observer=LiveObserver(overtaken=lambda: overtakes.append(True))) as session:
        for number in range(30):
            session.append(f"w{number}x ")
            await asyncio.sleep(0.005)
        await _settled(session)
        assert 0 < decoder.cancelled <= len(overtakes) <= len(decoder.texts) / 2 + 1
        assert _committed(session).split() == [f"W{number}X" for number in range(29)]


@pytest.mark.parametrize("error", [EngineFailed("died"), QueueFull("full")])
async def test_a_passing_failure_is_tried_again(error: ServiceError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    async with _opened(Capitals(errors=[error] * 3)) as session:
        assert await _grown(session, "the cat ") == "THE"


async def test_an_update_that_always_fails_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    async with _opened(Capitals(errors=[EngineFailed("died")] * 9)) as session:
        await _grown(session, "the cat ")
        with pytest.raises(EngineFailed):
            await session.log.next(session.log.attach(), 0, "")


async def test_a_reader_gets_what_it_lacks() -> None:
    async with _opened() as session:
        await _grown(session, "the ", "cat ", "sle")
        reader = session.log.attach()
        events, draft = await session.log.next(reader, 0, "")
        assert [type(event) for event in events] == [Commit, Commit]
        assert draft is not None
        assert draft.text == " SLEX"
        assert (await session.log.next(reader, 1, ""))[0] == events[1:]
        waiting = asyncio.create_task(session.log.next(reader, 2, " SLEX"))
        await asyncio.sleep(0)
        session.log.attach()
        with pytest.raises(NotReady, match="another connection"):
            await waiting


async def test_followers_are_so_many_and_do_not_keep_a_session_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "_MOST_FOLLOWERS", 2)
    async with _opened() as session:
        log = session.log
        followers = [log.follow()[0], log.follow()[0]]
        with pytest.raises(QueueFull, match="followers"):
            log.follow()
        assert session.log.left_at is not None
        waiting = [asyncio.create_task(log.next(each, 0, "")) for each in (*followers, log.attach())]
        await asyncio.sleep(0)
        await _grown(session, "the ")
        assert [await each for each in waiting] == [([], Draft(0, "THEX"))] * 3
        log.detach(followers[0])
        assert log.left_at is None
        assert log.follow() == (followers[1], 0)


async def test_a_client_that_is_too_far_behind_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "_KEPT_EVENTS", 3)
    async with _opened() as session:
        await _grown(session, *(f"w{number}x " for number in range(9)))
        assert len(session.log._events) == 3
        with pytest.raises(NotReady, match="overtaken"):
            await session.log.next(session.log.attach(), 1, "")


async def test_a_session_that_ends_tells_its_reader() -> None:
    async with _opened() as session:
        waiting = asyncio.create_task(session.log.next(session.log.attach(), 0, ""))
        await asyncio.sleep(0)
        session.fail(NotReady("the server is shutting down"))
        with pytest.raises(NotReady, match="shutting down"):
            await waiting
        with pytest.raises(InvalidRequest):
            session.replace(50, "")


@pytest.mark.parametrize("policy", [Policy("align_att", 1, 0.2), Policy("local_agreement", 2), Policy("wait_k", 2)])
async def test_nothing_is_ever_taken_back(policy: Policy) -> None:
    """Random growth, corrections anywhere, ends of sentences: indices and positions only grow, and texts join."""
    generator = random.Random(5)
    events: list[Event] = []
    async with _opened(policy=policy) as session:
        reader = session.log.attach()
        for _ in range(400):
            _change_at_random(session, generator)
            for _ in range(generator.randrange(12)):
                await asyncio.sleep(0)
        session.end()
        async with asyncio.timeout(10):
            while not (events and isinstance(events[-1], Ended)):
                events += (await session.log.next(reader, len(events), session.log._draft.text))[0]
    commits = [event for event in events if isinstance(event, Commit)]
    assert "".join(each.text for each in commits) == "".join(
        event.text for event in events if isinstance(event, Segment)
    )
    length = 0
    for each in commits:
        assert each.index == length
        length += len(each.text)
    [ended] = (event for event in events if isinstance(event, Ended))
    assert ended.index == length


def _change_at_random(session: LiveSession, generator: random.Random) -> None:
    source = session.source
    choices: list[Callable[[], None]] = [
        lambda: session.append(generator.choice(["cat ", "the", ". ", " dog", ". The ", "12 ", ""])),
        lambda: session.replace(max(source.end - generator.randrange(12), 0), generator.choice(["x", "a b ", ""])),
        session.finish,
    ]
    generator.choices(choices, [8, 3, 1])[0]()
