"""A browser's EventSource goes on with its stream on the server that is started after the first was killed."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page

from tests.system.browser import needs_chromium
from tests.system.conftest import Server, free_port, run_server
from tests.system.sentences import SENTENCES
from tests.waiting import wait_for

pytestmark = needs_chromium

STREAMS = 6
"""The number of connections that a browser opens to one server."""
SECONDS = 120.0
TEXTS = [" ".join(SENTENCES[12 * number : 12 * number + 16]) for number in range(STREAMS)]
OPTIONS = {"source": "en", "target": "fr", "beam_size": 4}

_OPEN = """([texts, options]) => {
    window.streams = texts.map(text => {
        const stream = {ids: [], text: "", done: null, closed: false, broken: 0};
        const source = new EventSource("/translate/stream?" + new URLSearchParams({...options, q: text}));
        source.addEventListener("token", event => {
            stream.ids.push(Number(event.lastEventId));
            stream.text += JSON.parse(event.data).text;
        });
        source.addEventListener("done", event => {
            stream.done = JSON.parse(event.data).translatedText;
            source.close();
        });
        source.onerror = () => {
            stream.broken += 1;
            stream.closed = source.readyState === EventSource.CLOSED;
        };
        return stream;
    });
}"""


def _alone(server: Server, text: str) -> str:
    answer = httpx.post(f"{server.url}/translate", json={"q": text, **OPTIONS}, timeout=SECONDS)
    translated = answer.json()["translatedText"]
    assert isinstance(translated, str)
    return translated


def _wait(page: Page, condition: str) -> None:
    """Wait until all streams fulfil a condition."""
    all_do = f"window.streams.every(stream => {condition})"
    wait_for(lambda: page.evaluate(all_do), SECONDS, otherwise=lambda: page.evaluate("window.streams"))


def test_event_sources_go_on_on_the_server_that_is_started_again(browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    with run_server(tmp_path / "first.log", port=port) as first:
        alone = [_alone(first, text) for text in TEXTS]
        page = browser.new_page(base_url=first.url)
        page.goto("/")
        page.evaluate(_OPEN, [TEXTS, {name: str(value) for name, value in OPTIONS.items()}])
        _wait(page, "stream.ids.length >= 3")
        os.killpg(first.process.pid, signal.SIGKILL)
        first.process.wait()
        started: list[Mapping[str, object]] = page.evaluate("window.streams")
        assert all(stream["done"] is None for stream in started), "all streams have to be in the middle"
    # Not ready yet: the browsers come back while the model is loaded, and a refusal would end their streams for good.
    with run_server(tmp_path / "second.log", port=port, ready=False):
        _wait(page, "stream.done !== null || stream.closed")
        ended = page.evaluate("window.streams")
        page.close()
    assert [stream["done"] for stream in ended] == alone
    assert [stream["text"] for stream in ended] == alone
    assert all(stream["broken"] >= 1 for stream in ended)
    for stream in ended:
        assert stream["ids"] == sorted(set(stream["ids"])), "no event twice"
