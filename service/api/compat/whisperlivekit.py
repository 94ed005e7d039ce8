"""The translation protocol of WhisperLiveKit, version 1: its `--translation-backend alignatt` talks to this server.

Its client sends the words of the utterance so far, again and again, and gets all that is committed of its translation.
Words that its recogniser may still change (`tail`) are not translated: they could only be drafted.
"""

from contextlib import suppress
from typing import Any, Final

import msgspec
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from service.api.context import ServiceContext, address_of, key_before_body
from service.api.live_messages import LiveStart
from service.errors import InvalidRequest, ServiceError, UnknownLanguage
from service.live.account import LiveAccount
from service.live.events import Commit
from service.live.policies import Latency
from service.live.session import LiveSession

router = APIRouter()

_VERSION: Final = 1
_LONGEST_UTTERANCE: Final = 1_500
"""Characters after which an utterance is ended: a session keeps little more of what is finished."""
_HELD: Final = "translation_alignatt_hold_back_target_units"
_LATENCIES: Final[dict[object, Latency]] = {0: "low", 1: "quality"}
"""Latencies by the override that WhisperLiveKit sends for its own ones of the same name."""


class _Init(msgspec.Struct, tag_field="type", tag="init"):
    target_lang: str
    source_lang: str
    protocol_version: int = _VERSION
    overrides: dict[str, Any] = {}
    accepted_target_prefix: str = ""


class _Update(msgspec.Struct, tag_field="type", tag="update"):
    words: list[tuple[str, float | None, float | None]]
    seq: int = 0
    utterance_id: int = 0
    is_final: bool = False


_decode: Final = msgspec.json.Decoder(_Init | _Update).decode
_encode: Final = msgspec.json.Encoder().encode


@router.websocket("/compat/whisperlivekit")
async def whisperlivekit(websocket: WebSocket) -> None:
    """Translate one stream of a recogniser."""
    service: ServiceContext = websocket.app.state.service
    await websocket.accept()
    try:
        caller = await service.access.admit(key_before_body(websocket), address_of(websocket))
        init = await _receive(websocket)
        if not isinstance(init, _Init) or init.protocol_version != _VERSION:
            raise InvalidRequest("protocol_version", f"an init message of version {_VERSION} comes first")
        start = LiveStart(
            source=init.source_lang,
            target=init.target_lang,
            latency=_LATENCIES.get(init.overrides.get(_HELD), "balanced"),
            committed=init.accepted_target_prefix,
        )
        with service.access.stream(caller):
            await service.check_open()
            account = LiveAccount(service.access, caller, 0)
            name, session = await service.live.open(start.request(caller.identity, 1), account)
            try:
                await _send(websocket, {"type": "init_ok", "protocol_version": _VERSION, "model": "dragoman"})
                await _Utterances(websocket, session, init.accepted_target_prefix).run()
            finally:
                service.live.close(name)
    except WebSocketDisconnect:
        websocket.state.outcome = "ok"
    except ServiceError as error:
        websocket.state.outcome = error.code
        code = "unsupported_direction" if isinstance(error, UnknownLanguage) else error.code
        with suppress(WebSocketDisconnect, RuntimeError):
            await _send(websocket, {"type": "error", "code": code, "message": error.message})
            await websocket.close()


class _Utterances:
    """The utterances of one connection, one after the other; `committed` begins the first one."""

    def __init__(self, websocket: WebSocket, session: LiveSession, committed: str) -> None:
        self._websocket = websocket
        self._session = session
        self._reader = session.log.attach()
        self._known = self._start = 0
        self._text = committed

    async def run(self) -> None:
        while True:
            update = await _receive(self._websocket)
            if isinstance(update, _Init):
                raise InvalidRequest("type", "there has been an init message")
            await _send(self._websocket, await self._answer(update))

    async def _answer(self, update: _Update) -> dict[str, object]:
        session, text = self._session, "".join(f"{word[0]} " for word in update.words)
        is_forced = len(text) > _LONGEST_UTTERANCE
        before = self._text
        await session.account.reach(self._start + len(text))
        session.replace(self._start, text)
        if is_final := update.is_final or is_forced:
            session.finish()
        await session.settled()
        events, draft = await session.log.next(self._reader, self._known, "\0")
        self._known += len(events)
        self._text += "".join(event.text for event in events if isinstance(event, Commit))
        committed = self._text
        if is_final:
            self._start, self._text = session.source.end, ""
        return {
            "type": "translation",
            "seq": update.seq,
            "utterance_id": update.utterance_id,
            "final": is_final,
            "forced_final": is_forced and not update.is_final,
            "committed_text": committed.strip(),
            "committed_delta": committed[len(before) :],
            "buffer_text": "" if draft is None or is_final else draft.text.strip(),
        }


async def _receive(websocket: WebSocket) -> _Init | _Update:
    """Raises `InvalidRequest` and `WebSocketDisconnect`."""
    message = await websocket.receive_text()
    try:
        decoded: _Init | _Update = _decode(message)
    except msgspec.DecodeError as error:
        raise InvalidRequest("message", str(error)) from None
    return decoded


async def _send(websocket: WebSocket, message: dict[str, object]) -> None:
    await websocket.send_text(_encode(message).decode())
