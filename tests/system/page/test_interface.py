"""The page in its reader's language, in both directions of writing, and in a browser that keeps nothing."""

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.system.browser import needs_chromium
from tests.system.conftest import Server
from tests.system.page.pages import PHONE, listened, open_inside, translate, width_of

pytestmark = needs_chromium

_TITLES = {
    "ar-EG": "ترجمة على جهازك أنت",
    "de-AT": "Übersetzung auf dem eigenen Rechner",
    "en-GB": "Translation on your own machine",
    "es-MX": "Traducción en su propio equipo",
    "fr-FR": "La traduction sur votre propre machine",
    "hi-IN": "आपकी अपनी मशीन पर अनुवाद",
    "pt-BR": "Tradução na sua própria máquina",
    "nl-NL": "Translation on your own machine",
}

_NO_STORAGE = """
    for (const name of ["localStorage", "sessionStorage"])
        Object.defineProperty(window, name, { get() { throw new DOMException("forbidden", "SecurityError"); } });
"""


@pytest.mark.parametrize(
    "locale",
    [each if each in ("ar-EG", "de-AT", "nl-NL") else pytest.param(each, marks=pytest.mark.slow) for each in _TITLES],
)
def test_it_speaks_its_readers_language(browser: Browser, server: Server, locale: str, complaints: list[str]) -> None:
    with browser.new_context(base_url=server.url, locale=locale, viewport=PHONE) as context:
        page = listened(context.new_page(), complaints)
        page.goto("/")
        expect(page.locator("header p")).to_have_text(_TITLES[locale])
        language = locale[:2] if locale != "nl-NL" else "en"
        expect(page.locator("html")).to_have_attribute("lang", language)
        expect(page.locator("html")).to_have_attribute("dir", "rtl" if language == "ar" else "ltr")
        open_inside(page)
        translate(page, "I see a cat.")
        assert width_of(page) == PHONE["width"]
        # What the page says in another language, its modules say in it, too.
        expect(page.locator("#triangle caption")).to_have_text(
            "Self-attention of each token over those before it, in percent"
        ) if language == "en" else expect(page.locator("#triangle caption")).not_to_contain_text("Self-attention of")
    assert not complaints


def test_another_language_is_chosen_and_remembered(page: Page) -> None:
    page.locator("#text").fill("I see a cat.")
    page.locator("#interface").select_option("de")
    expect(page.get_by_role("button", name="Kopieren", exact=True)).to_be_visible()
    expect(page.locator("#output")).to_have_text("Je vois un chat.")
    expect(page.locator("#from option")).to_have_text(["Englisch"])
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("lang", "de")


def test_arabic_is_set_from_the_right(browser: Browser, server: Server) -> None:
    """The page, and in any page each text by its own letters."""
    with browser.new_context(base_url=server.url, locale="ar-EG") as context:
        page = context.new_page()
        page.goto("/")
        translate(page, "I see a cat.")
        source, target = (page.locator(each).bounding_box() for each in ("#text", "#output"))
        assert source is not None
        assert target is not None
        assert target["x"] < source["x"]
        for each in ("#text", "#output"):
            assert page.locator(each).evaluate("node => getComputedStyle(node).direction") == "ltr"
        translate(page, "مرحبا Linux 6.1!")
        expect(page.locator("#output")).to_contain_text("مرحبا")
        for each in ("#text", "#backdrop", "#output"):
            assert page.locator(each).evaluate("node => getComputedStyle(node).direction") == "rtl"


def test_a_browser_without_storage_works(context: BrowserContext, complaints: list[str]) -> None:
    page = listened(context.new_page(), complaints)
    page.add_init_script(_NO_STORAGE)
    page.goto("/")
    translate(page, "I see a cat.")
    expect(page.locator("#output")).to_have_text("Je vois un chat.")
    page.locator("#history summary").click()
    expect(page.locator("#history li")).to_have_count(1)
    page.locator("#terms summary").click()
    page.get_by_label("Word in the text").first.fill("cat")
    page.get_by_label("Its translation").first.fill("matou")
    page.locator("#terms form button").click()
    expect(page.locator("#output")).to_contain_text("matou")
    page.get_by_role("button", name="Delete this entry").first.click()
    open_inside(page)
    expect(page.locator("#tokens [role=option]").first).to_be_visible()
    assert not complaints
