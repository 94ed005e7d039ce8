"""Our client against a real server, over connections that break."""

from typing import Any, TypedDict

import httpx
import pytest

from service.client import AsyncClient, Client, Done, Event, Refused, Start, Token
from tests.system.conftest import Server
from tests.system.cutting import cutting_proxy
from tests.system.sentences import SENTENCES

TEXT = " ".join(SENTENCES[:12]) + "\n\tÇa va ? 😀\u2028 42\n" + SENTENCES[20]


class Direction(TypedDict):
    source: str
    target: str


DIRECTION: Direction = {"source": "en", "target": "fr"}


def _repeatable(events: list[Event]) -> list[object]:
    """Return the events without ids and timings, which differ each time."""
    return [
        (type(each), getattr(each, "text", None), getattr(each, "index", None), getattr(each, "segment", None))
        for each in events
    ]


@pytest.fixture(scope="module")
def whole(server: Server) -> list[Event]:
    with Client(server.url) as client:
        return list(client.stream(TEXT, **DIRECTION))


@pytest.fixture(scope="module")
def length(server: Server) -> int:
    """Bytes of the answer, headers included, but for a few: timings differ in length."""
    response = httpx.post(f"{server.url}/translate", json={"q": TEXT, **DIRECTION, "stream": True})
    return len(response.content) + 200


def _cuts(length: int) -> list[list[int]]:
    """Connections break within the headers, after them, within events, at the end, and twice in one translation."""
    evenly = [[1 + length * i // 17] for i in range(17)]
    return [*evenly, [0, 0], [300, 301, 302], [length // 3, length // 2, 10, 400], [length - 250], [length - 20]]


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_a_stream_outlives_its_connection(server: Server, whole: list[Event], length: int, reset: bool) -> None:
    for cuts in _cuts(length):
        with cutting_proxy(server.port, cuts, reset=reset) as proxy, Client(proxy.url) as client:
            events = list(client.stream(TEXT, **DIRECTION))
        assert _repeatable(events) == _repeatable(whole), cuts
        done = events[-1]
        assert isinstance(done, Done)
        assert "".join(each.text for each in events if isinstance(each, Token)) == done.translatedText
        assert proxy.connections > 1, cuts


async def test_so_does_the_asynchronous_one(server: Server, whole: list[Event], length: int) -> None:
    for cuts in _cuts(length)[::3]:
        with cutting_proxy(server.port, cuts, reset=True) as proxy:
            async with AsyncClient(proxy.url) as client:
                assert _repeatable([event async for event in client.stream(TEXT, **DIRECTION)]) == _repeatable(whole), (
                    cuts
                )


@pytest.mark.parametrize("options", [{"beam_size": 4, "alternatives": 2}, {"temperature": 0.8, "seed": 3}])
def test_whatever_it_decodes_with(server: Server, options: dict[str, Any]) -> None:
    with Client(server.url) as client:
        expected = client.translate([TEXT, "Yes."], **DIRECTION, **options)
    with cutting_proxy(server.port, [700, 3000], reset=True) as proxy, Client(proxy.url) as client:
        assert client.translate([TEXT, "Yes."], **DIRECTION, **options) == expected
        assert proxy.connections == 3


def test_a_stream_that_is_closed_leaves_the_server(server: Server) -> None:
    with Client(server.url) as client:
        events = client.stream(" ".join(SENTENCES * 5), **DIRECTION)
        assert isinstance(next(events), Start)
        events.close()
        server.wait_for_metric("dragoman_slots_used", 0)


def test_refusals_and_languages(server: Server) -> None:
    with Client(server.url) as client:
        with pytest.raises(Refused, match="target: xx is not supported") as caught:
            client.translate("Yes.", source="en", target="xx")
        assert (caught.value.code, caught.value.status) == ("invalid_request", 400)
        assert [language.code for language in client.languages()] == ["en", "fr"]
        assert client.translate(["Yes.", "42"], **DIRECTION, scores=True)[1].score is None
