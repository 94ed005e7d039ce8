"""The page fits on desktops and phones, in light and dark."""

import pytest
from playwright.sync_api import Browser, ViewportSize

from tests.system.browser import needs_chromium
from tests.system.conftest import Server
from tests.system.page.pages import DESKTOP, PHONE, listened, wait_until_done, width_of

pytestmark = needs_chromium


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits(browser: Browser, server: Server, viewport: ViewportSize, scheme: str, complaints: list[str]) -> None:
    """No scrolling sideways, however much there is to show; and dark where people want it dark."""
    assert scheme in ("light", "dark")
    dark = scheme == "dark"
    context = browser.new_context(base_url=server.url, viewport=viewport, color_scheme="dark" if dark else "light")
    page = listened(context.new_page(), complaints)
    page.goto("/")
    assert width_of(page) == viewport["width"]
    page.locator("#alternatives").select_option("3")
    page.locator("#text").fill("The old man is waiting for the house near the river. " * 3 + "x" * 60)
    wait_until_done(page)
    assert width_of(page) == viewport["width"]
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    red = int(background.removeprefix("rgb(").split(",")[0])
    assert (red < 64) is dark
    source, target = (page.locator(each).bounding_box() for each in ("#text", "#output"))
    assert source is not None
    assert target is not None
    beside = target["x"] >= source["x"] + source["width"]
    assert beside is (viewport is DESKTOP)
    context.close()
    assert not complaints
