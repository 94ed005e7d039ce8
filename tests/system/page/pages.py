"""Helpers for the tests of the page."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, ViewportSize, expect

from tests.system.conftest import Server

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 360, "height": 740}
LOOKS = (("light", False), ("dark", True), ("light", True), ("dark", False))
"""Light and dark, on a desktop and on a phone."""


def every_look(*quick: tuple[str, bool]) -> pytest.MarkDecorator:
    """Try all looks with --slow, and these ones always."""
    looks = [look if look in quick else pytest.param(*look, marks=pytest.mark.slow) for look in LOOKS]
    return pytest.mark.parametrize(("scheme", "narrow"), looks)


@contextmanager
def looked_at(browser: Browser, server: Server, scheme: str, viewport: ViewportSize, **options: Any) -> Iterator[Page]:
    """Open the page light or dark, for axe too."""
    context = browser.new_context(
        base_url=server.url,
        viewport=viewport,
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",  # what fades in has no contrast yet
        bypass_csp=True,  # axe is a script from elsewhere
        **options,
    )
    page = context.new_page()
    page.goto("/")
    expect(page.locator("#from")).to_be_enabled()
    yield page
    context.close()


def kept_open(browser: Browser, server: Server, **options: Any) -> Page:
    """Open a tab that several tests use, each `as_new`: a context for each is as much work as a short test."""
    return browser.new_context(base_url=server.url, viewport=DESKTOP, **options).new_page()


@contextmanager
def as_new(page: Page, server: Server) -> Iterator[Page]:
    """Forget at the end what happened in the page's context."""
    yield page
    for each in page.context.pages:
        if each != page:
            each.close()
    page.unroute_all()
    page.context.clear_permissions()
    if page.url.startswith(server.url):
        page.evaluate("sessionStorage.clear()")
    page.goto("about:blank")
    session = page.context.new_cdp_session(page)
    session.send("Storage.clearDataForOrigin", {"origin": server.url, "storageTypes": "local_storage"})
    session.detach()


def listened(page: Page, complaints: list[str]) -> Page:
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page


def width_of(page: Page) -> int:
    width = page.evaluate("document.documentElement.scrollWidth")
    assert isinstance(width, int)
    return width


def body_of(request: Request) -> dict[str, object]:
    body: dict[str, object] = json.loads(request.post_data or "")
    return body


def open_inside(page: Page) -> None:
    page.locator("#inside summary").click()


def choose_beam_width(page: Page, width: str) -> None:
    """Choose a beam width, which is inside the model."""
    if not page.locator("#beam").is_visible():
        open_inside(page)
    page.get_by_label("Beam width").select_option(width)


def translate(page: Page, text: str) -> None:
    page.locator("#text").fill(text)
    wait_until_done(page)


def wait_until_done(page: Page) -> None:
    """Wait for the translation of what was typed before."""
    expect(page.locator("#output")).to_have_attribute("aria-busy", "false")


def captions_of(page: Page) -> Page:
    """Open the captions of a live translation."""
    with page.expect_popup() as opened:
        page.locator("a#captions").click()
    return opened.value


_RECORD = """node => {
    window.texts = [node.textContent];
    const note = () => node.textContent !== texts.at(-1) && texts.push(node.textContent);
    new MutationObserver(note).observe(node, { childList: true, subtree: true, characterData: true });
}"""


def record(page: Page) -> None:
    """Note what is committed now and every text that is from now on."""
    page.locator("#output .committed").evaluate(_RECORD)


def recorded(page: Page) -> list[str]:
    """Return what was noted: each text begins with the one before."""
    texts: list[str] = page.evaluate("texts")
    assert [each for each in pairwise(texts) if not each[1].startswith(each[0])] == []
    return texts
