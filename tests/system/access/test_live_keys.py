"""Keys, limits and quotas of live sessions."""

import httpx
import pytest

from tests.system.access.conftest import REQUEST, KeyedServer
from tests.system.live import opened, rest, say, until


def _used(keyed: KeyedServer, name: str) -> int:
    headers = {"Authorization": f"DeepL-Auth-Key {keyed.keys[name]}"}
    usage = httpx.get(f"{keyed.url}/v2/usage", headers=headers).json()
    count: int = usage["character_count"]
    return count


@pytest.mark.parametrize(("key", "code"), [({}, "key_required"), ({"api_key": "wrong"}, "invalid_key")])
async def test_a_key_is_needed(keyed: KeyedServer, key: dict[str, str], code: str) -> None:
    async with opened(keyed.url, **REQUEST, **key) as socket:
        [error] = await rest(socket)
    assert error["code"] == code


async def test_characters_are_counted_once_however_often_they_change(keyed: KeyedServer) -> None:
    before = _used(keyed, "free")
    async with opened(keyed.url, **REQUEST, api_key=keyed.keys["free"]) as socket:
        for word in "The cat sleeps on the sofa".split():
            await say(socket, append=word + " ")
        for _ in range(5):
            await say(socket, replace_from=4, text="dog sleeps on the sofa.")
        await say(socket, end=True)
        assert (await rest(socket))[-1]["event"] == "done"
    assert _used(keyed, "free") - before == len("The dog sleeps on the sofa.")


async def test_a_quota_refuses_what_exceeds_it_and_the_session_goes_on(keyed: KeyedServer) -> None:
    async with opened(keyed.url, **REQUEST, api_key=keyed.keys["live quota"], append="The cat sleeps. ") as socket:
        await until(socket, "segment")
        await say(socket, append="And the dog does not sleep.")
        await say(socket, end=True)
        events = await rest(socket)
    assert [event["code"] for event in events if event["event"] == "error"] == ["quota_exceeded"]
    assert events[-1]["event"] == "done"
    assert _used(keyed, "live quota") == len("The cat sleeps. ")


async def test_sessions_count_as_streams_and_belong_to_their_key(keyed: KeyedServer) -> None:
    async with opened(keyed.url, **REQUEST, api_key=keyed.keys["stream"]) as socket:
        session = (await until(socket, "start"))[0]["session"]
        async with opened(keyed.url, **REQUEST, api_key=keyed.keys["stream"]) as second:
            assert [event["code"] for event in await rest(second)] == ["rate_limited"]
        async with opened(keyed.url, session=session, api_key=keyed.keys["free"]) as other:
            assert [event["code"] for event in await rest(other)] == ["unknown_session"]


async def test_an_alias_belongs_to_its_key_and_followers_need_none(keyed: KeyedServer) -> None:
    alias = "0123456789abcdef"
    async with opened(keyed.url, **REQUEST, api_key=keyed.keys["free"], alias=alias) as socket:
        await until(socket, "start")
        async with opened(keyed.url, **REQUEST, api_key=keyed.keys["stream"], alias=alias) as other:
            [error] = await rest(other)
        assert error["error"] == "alias: another client has a session of this name"
        with httpx.stream("GET", f"{keyed.url}/translate/live/{alias}") as response:
            assert response.status_code == 200
