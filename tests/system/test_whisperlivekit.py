"""The messages of WhisperLiveKit's translation client, as its version 0.2.26 sends them."""

import json
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.system.conftest import Server

INIT = {"type": "init", "protocol_version": 1, "source_lang": "en", "target_lang": "fr", "overrides": {}}


async def _ask(socket: ClientConnection, **message: Any) -> dict[str, Any]:
    await socket.send(json.dumps(message))
    answer: dict[str, Any] = json.loads(await socket.recv())
    return answer


def _update(seq: int, text: str, **fields: Any) -> dict[str, Any]:
    words = [[word, 100.0 * number, 100.0 * number + 90] for number, word in enumerate(text.split())]
    return {
        "type": "update",
        "seq": seq,
        "utterance_id": 0,
        "words": words,
        "clock_ms": 0.0,
        "is_final": False,
    } | fields


async def test_utterances(server: Server) -> None:
    async with connect(server.url.replace("http", "ws", 1) + "/compat/whisperlivekit", proxy=None) as socket:
        assert (await _ask(socket, **INIT))["type"] == "init_ok"
        words = "The old man who lives next door has many books.".split()
        committed = ""
        for seq in range(1, len(words)):
            tail = {"words": [["maybe", None, None]]}
            answer = await _ask(socket, **_update(seq, " ".join(words[:seq]), tail=tail))
            assert (answer["type"], answer["seq"], answer["final"]) == ("translation", seq, False)
            assert answer["committed_text"].startswith(committed)
            committed = answer["committed_text"]
        assert committed.startswith("Le vieil homme")
        final = await _ask(socket, **_update(20, " ".join(words), is_final=True))
        assert final["final"]
        assert final["committed_text"].startswith(committed)
        again = await _ask(socket, **_update(21, "The cat sleeps.", is_final=True, utterance_id=1))
        assert again["committed_text"] == "Le chat dort."
        long = await _ask(socket, **_update(22, "word " * 400))
        assert long["forced_final"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({**INIT, "target_lang": "xx"}, "unsupported_direction"),
        ({**INIT, "protocol_version": 2}, "invalid_request"),
        (_update(1, "Yes."), "invalid_request"),
        ({"type": "other"}, "invalid_request"),
    ],
)
async def test_wrong_messages(server: Server, message: dict[str, Any], code: str) -> None:
    async with connect(server.url.replace("http", "ws", 1) + "/compat/whisperlivekit", proxy=None) as socket:
        answer = await _ask(socket, **message)
        assert (answer["type"], answer["code"]) == ("error", code)


async def test_a_reconnection_continues_what_was_accepted(server: Server) -> None:
    async with connect(server.url.replace("http", "ws", 1) + "/compat/whisperlivekit", proxy=None) as socket:
        await _ask(socket, **INIT, accepted_target_prefix="Le vieil homme")
        answer = await _ask(socket, **_update(1, "The old man sleeps well.", is_final=True))
        assert answer["committed_text"] == "Le vieil homme dort bien."
