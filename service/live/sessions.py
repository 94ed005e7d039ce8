"""The live sessions of one server: opened, found again after a lost connection, ended when nobody needs them."""

import asyncio
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from service.errors import DeadlineExceeded, InvalidRequest, NotReady, QueueFull, UnknownSession
from service.live.account import LiveAccount
from service.live.decoding import Committed, Decoder, DirectDecoder, PivotDecoder
from service.live.policies import PRESETS, WITHOUT_ATTENTION, Latency, Policy
from service.live.session import LiveObserver, LiveSession, Options, Start
from service.registry.served_model import ServedModel
from service.text.glossary import Glossary
from service.translation.options import Inspect, TranslationOptions
from service.translation.translator import AUTOMATIC, Translator

MAX_SESSIONS: Final = 1_000
IDLE_SECONDS: Final = 300.0
"""A session whose client says nothing for so long ends."""
LEFT_SECONDS: Final = 60.0
"""A session without a connection can be resumed for so long."""
_LOOK_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class SessionRequest:
    """A checked request for a session; `policy` is None for that of the `latency`."""

    source: str
    target: str
    owner: str
    options: TranslationOptions
    latency: Latency = "balanced"
    policy: Policy | None = None
    revises: bool = False
    start: Start = Start()  # noqa: RUF009  it cannot be changed
    committed: str = ""
    alias: str | None = None
    """A name of the client's choice by which followers find the session, and the next one that has it."""

    def with_glossary(self, glossary: Glossary) -> "SessionRequest":
        """Return the request with a stored glossary."""
        return replace(self, options=replace(self.options, glossary=glossary))


class _Entry(NamedTuple):
    session: LiveSession
    owner: str
    models: Collection[ServedModel]
    alias: str | None


class LiveSessions:
    """All sessions by their ids. An id belongs to the caller who opened it."""

    def __init__(self, translator: Translator, observer: LiveObserver | None = None) -> None:
        self._translator = translator
        self._observer = observer or LiveObserver()
        self._sessions: dict[str, _Entry] = {}
        self._aliases: dict[str, _Entry] = {}
        self._watching: asyncio.Task[None] | None = None
        self._drains = False

    async def open(self, request: SessionRequest, account: LiveAccount) -> tuple[str, LiveSession]:
        """Open a session; models that are missing are fetched first.

        Raises `InvalidRequest`, `QueueFull`, `NotReady` and what else refuses a translation.
        """
        if self._drains:
            raise _shutting_down()
        if len(self._sessions) >= MAX_SESSIONS:
            raise QueueFull("too many live sessions; try again later")
        source, target = self._checked(request)
        route = await self._translator.route(source, target)
        is_direct = route.second is None
        options = request.options if is_direct else replace(request.options, inspect=Inspect())
        decoder: Decoder = (DirectDecoder if is_direct else PivotDecoder)(self._translator, route, options)
        presets = PRESETS if is_direct else WITHOUT_ATTENTION
        policy = request.policy or presets[request.latency]
        if not is_direct and policy.name == "align_att":
            policy = WITHOUT_ATTENTION[request.latency]
        committed = Committed(text=request.committed)
        if request.committed and is_direct:
            committed.ids = route.first.model.tokenizer.encode_target(request.committed)
            committed.terms = [None] * len(committed.ids)
        session = LiveSession(
            decoder, Options(policy, source, request.revises), account, request.start, committed, self._observer
        )
        name = secrets.token_urlsafe(12)
        self._keep(name, _Entry(session, request.owner, route.models, request.alias))
        for model in route.models:
            model.acquire(session)
        self._observer.opened(len(self._sessions))
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        return name, session

    def _checked(self, request: SessionRequest) -> tuple[str, str]:
        taken = self._aliases.get(request.alias or "")
        if taken is not None and taken.owner != request.owner:
            raise InvalidRequest("alias", "another client has a session of this name")
        source, target = self._translator.direction(request.source, request.target)
        if source == AUTOMATIC:
            raise InvalidRequest("source", "must be a language: that of a growing text is not detected")
        if source == target:
            raise InvalidRequest("target", "is the language of the source")
        return source, target

    def _keep(self, name: str, entry: _Entry) -> None:
        self._sessions[name] = entry
        if entry.alias is not None:
            if (earlier := self._aliases.get(entry.alias)) is not None:
                earlier.session.log.dismiss()
            self._aliases[entry.alias] = entry

    def find(self, name: str, owner: str) -> LiveSession:
        """Return a session of a caller. Raises `UnknownSession`."""
        entry = self._sessions.get(name)
        if entry is None or entry.owner != owner:
            raise UnknownSession
        return entry.session

    def followed(self, name: str) -> LiveSession:
        """Return the session of an id or alias, for readers: who knows the name may read. Raises `UnknownSession`."""
        entry = self._sessions.get(name) or self._aliases.get(name)
        if entry is None:
            raise UnknownSession
        return entry.session

    def close(self, name: str) -> None:
        """Forget a session whose client needs it no more."""
        if (entry := self._sessions.pop(name, None)) is not None:
            if entry.alias is not None and self._aliases[entry.alias] is entry:
                del self._aliases[entry.alias]
            entry.session.close()
            for model in entry.models:
                model.release(entry.session)
            self._observer.opened(len(self._sessions))

    def drain(self) -> None:
        """End all sessions: their clients are told, and continue on another server."""
        self._drains = True
        for entry in self._sessions.values():
            entry.session.fail(_shutting_down())

    async def _watch(self) -> None:
        """End sessions that are silent, and forget those without a connection."""
        while self._sessions:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for name, entry in list(self._sessions.items()):
                session = entry.session
                if session.log.left_at is not None and now - session.log.left_at > LEFT_SECONDS:
                    self.close(name)
                elif now - session.touched_at > IDLE_SECONDS:
                    session.fail(DeadlineExceeded(f"the session got no text for {IDLE_SECONDS:.0f} s"))


def _shutting_down() -> NotReady:
    return NotReady("the server is shutting down; continue on another one")
