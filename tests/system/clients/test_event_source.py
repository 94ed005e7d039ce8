"""A browser's EventSource."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from tests.system.browser import needs_chromium, run_browser
from tests.system.conftest import Server
from tests.system.cutting import cutting_proxy
from tests.system.sentences import SENTENCES

_LISTEN = """
    (url) => new Promise((resolve, reject) => {
        const source = new EventSource(url);
        const seen = { tokens: [], connections: 0 };
        source.onopen = () => { seen.connections += 1; };
        source.addEventListener("token", (event) => seen.tokens.push([event.lastEventId, JSON.parse(event.data).text]));
        source.addEventListener("done", (event) => {
            source.close();
            resolve({ ...seen, text: JSON.parse(event.data).translatedText });
        });
        // Without data it is the browser's own: the connection broke, and it tries again.
        source.addEventListener("error", (event) => event.data && reject(new Error(event.data)));
    })
"""


# The browser waits some seconds before it reconnects, gets 204, and gives up.
_NEVER_CLOSE = """
    (url) => new Promise((resolve) => {
        const source = new EventSource(url);
        const seen = { done: 0, connections: 0 };
        source.onopen = () => { seen.connections += 1; };
        source.addEventListener("done", () => { seen.done += 1; });
        source.addEventListener("error", () => source.readyState === EventSource.CLOSED && resolve(seen));
    })
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with run_browser() as running:
        yield running


@needs_chromium
def test_an_event_source(browser: Browser, server: Server) -> None:
    seen = _listen(browser, server.url)
    assert seen["text"] == "".join(text for _, text in seen["tokens"])
    assert seen["connections"] == 1


@needs_chromium
def test_an_event_source_resumes(browser: Browser, server: Server) -> None:
    expected = _listen(browser, server.url)
    with cutting_proxy(int(server.url.rsplit(":", 1)[1]), [900] * 3, reset=True) as proxy:
        seen = _listen(browser, proxy.url)
    assert seen["connections"] > 1
    assert (seen["tokens"], seen["text"]) == (expected["tokens"], expected["text"])


@needs_chromium
def test_an_event_source_that_nobody_closes_stops_after_the_last_event(browser: Browser, server: Server) -> None:
    page = browser.new_page()
    page.goto(f"{server.url}/livez")
    query = httpx.QueryParams({"q": "I am a cat.", "source": "en", "target": "fr"})
    seen = page.evaluate(_NEVER_CLOSE, f"/translate/stream?{query}")
    page.close()
    assert seen == {"done": 1, "connections": 1}


def _listen(browser: Browser, url: str) -> dict[str, Any]:
    page = browser.new_page()
    page.goto(f"{url}/livez")
    query = httpx.QueryParams({"q": " ".join(SENTENCES[:3]), "source": "en", "target": "fr"})
    seen: dict[str, Any] = page.evaluate(_LISTEN, f"/translate/stream?{query}")
    page.close()
    return seen
