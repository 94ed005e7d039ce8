"""Helpers for the tests of the page."""

import json

from playwright.sync_api import Page, Request, ViewportSize, expect

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 360, "height": 740}


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


def choose_beam_width(page: Page, width: str) -> None:
    """Choose a beam width, which is behind "More"."""
    beam = page.get_by_label("Beam width")
    if not beam.is_visible():
        page.get_by_text("More", exact=True).click()
    beam.select_option(width)


def wait_until_done(page: Page) -> None:
    expect(page.locator("#timing")).to_contain_text("tokens/s")
