"""The page fits on desktops and phones, in light and dark."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.system.browser import needs_chromium
from tests.system.conftest import Server
from tests.system.page.pages import (
    DESKTOP,
    PHONE,
    choose_beam_width,
    every_look,
    listened,
    looked_at,
    open_inside,
    translate,
    wait_until_done,
    width_of,
)

pytestmark = needs_chromium


@every_look(("light", False), ("dark", True))
def test_it_fits(browser: Browser, server: Server, scheme: str, narrow: bool, complaints: list[str]) -> None:
    """No scrolling sideways, however much there is to show; and dark where people want it dark."""
    viewport = PHONE if narrow else DESKTOP
    with looked_at(browser, server, scheme, viewport) as page:
        listened(page, complaints)
        assert width_of(page) == viewport["width"]
        expect(page.locator("#from")).to_have_css("text-overflow", "ellipsis")
        open_inside(page)
        translate(page, "The old man is waiting for the house near the river. " * 3 + "x" * 60)
        assert width_of(page) == viewport["width"]
        background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        red = int(background.removeprefix("rgb(").split(",")[0])
        assert (red < 64) is (scheme == "dark")
        source, target = (page.locator(each).bounding_box() for each in ("#text", "#output"))
        assert source is not None
        assert target is not None
        assert source["height"] == pytest.approx(target["height"], abs=1) or narrow
        beside = target["x"] >= source["x"] + source["width"]
        assert beside is not narrow
    assert not complaints


@every_look(("light", False))
def test_axe_finds_nothing(browser: Browser, server: Server, scheme: str, narrow: bool) -> None:
    """Accessibility of everything that the page can show, with the contrast of all cells of the heat maps."""
    with looked_at(browser, server, scheme, PHONE if narrow else DESKTOP) as page:
        choose_beam_width(page, "4")
        translate(page, "The old dog likes Canada. I see a cat.")
        page.get_by_text("History").click()
        for token in (0, 3):
            page.locator("#tokens [role=option]").nth(token).click()
            _check_by_axe(page)
            shades = page.locator(".heatmap .weighted.strong")
            assert shades.count() > 0, "a text whose weights are all small proves little"


@every_look(("dark", True))
def test_axe_finds_nothing_in_what_opens(browser: Browser, server: Server, scheme: str, narrow: bool) -> None:
    """The menu of a word, a hint, a correction and terms."""
    locale, viewport = ("ar-EG", PHONE) if narrow else ("en-GB", DESKTOP)
    with looked_at(browser, server, scheme, viewport, locale=locale) as page:
        translate(page, "Où est la gare ? J'ai perdu ma clé.")
        expect(page.locator("#hint")).to_be_visible()
        page.locator("#output .token").nth(1).click()
        expect(page.locator("#ways button").first).to_be_visible()
        expect(page.locator("#ways .state")).to_have_count(1)
        _check_by_axe(page)
        page.locator("#ways .own input").fill("un")
        page.locator("#ways .own button").click()
        expect(page.locator("#changed")).to_be_visible()
        page.locator("#terms summary").click()
        page.locator("#terms input").first.fill("cat")
        page.locator("#terms input").last.fill("matou")
        page.locator("#terms form button").click()
        wait_until_done(page)
        _check_by_axe(page)
        page.locator("#edit").click()
        _check_by_axe(page)


def _check_by_axe(page: Page) -> None:
    # Every cell has to be in the window: axe does not judge colours that are scrolled out of sight.
    page.add_style_tag(content=".heatmap, .tokens, .entries { max-height: none !important; overflow: visible }")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_panes_grow_and_scroll_together(page: Page) -> None:
    text, output = page.locator("#text"), page.locator("#output")

    def height() -> float:
        boxes = [pane.bounding_box() for pane in (text, output)]
        assert boxes[0] is not None
        assert boxes[1] is not None
        assert boxes[0]["height"] == pytest.approx(boxes[1]["height"], abs=1)
        return boxes[0]["height"]

    few = height()
    text.fill("I see a cat.\n" * 14)
    wait_until_done(page)
    more = height()
    assert more > few + 50
    assert text.evaluate("pane => pane.scrollHeight - pane.clientHeight") <= 1, "all lines are seen"
    text.fill("I see a cat.\n" * 99 + "Yes.")
    expect(output).to_contain_text("Oui.")
    wait_until_done(page)
    assert more < height() <= 0.6 * DESKTOP["height"] + 1
    for moved, other in ((text, output), (output, text)):
        for way in (1.0, 0.0):
            moved.hover()
            moved.evaluate("(pane, way) => pane.scrollTo(0, way * pane.scrollHeight)", way)
            expect(other).to_have_js_property("scrollTop", other.evaluate(_END) if way else 0)


_END = "pane => pane.scrollHeight - pane.clientHeight"
