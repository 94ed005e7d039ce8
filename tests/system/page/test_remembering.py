"""The text in the page's address, and earlier translations in its history."""

from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import BrowserContext, Page, expect

from tests.system.browser import needs_chromium
from tests.system.page.pages import wait_until_done

pytestmark = needs_chromium

CAT, CHAT = "I see a cat.", "Je vois un chat."


def _address(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_a_link_is_translated_whatever_its_languages(page: Page) -> None:
    page.goto("/?q=Yes.&source=xx&target=yy")
    expect(page.locator("#output")).to_have_text("Oui.")
    assert (page.locator("#from").input_value(), page.locator("#to").input_value()) == ("en", "fr")
    notice = page.locator("#note")
    expect(notice).to_have_text("The link's language “yy” is not available.")
    page.goto("/?q=I+see+a+cat.%0AYes.&source=en&target=fr")
    expect(page.locator("#text")).to_have_value("I see a cat.\nYes.")
    expect(page.locator("#output")).to_have_text("Je vois un chat.\nOui.")
    expect(notice).to_be_empty()


def test_a_text_is_kept_on_reload(page: Page) -> None:
    page.locator("#text").fill("I see a cat & a dog.")
    wait_until_done(page)
    assert _address(page) == {"q": ["I see a cat & a dog."], "source": ["en"], "target": ["fr"]}
    page.reload()
    expect(page.locator("#text")).to_have_value("I see a cat & a dog.")
    wait_until_done(page)
    page.locator("#text").fill("")
    expect(page.locator("#output")).to_be_empty()
    assert "q" not in _address(page)
    # A long one without an address.
    text = "I see a cat. " * 200
    page.locator("#text").fill(text)
    expect(page.locator(".token:not(:empty)").first).to_be_visible()
    assert "q" not in _address(page)
    page.reload()
    expect(page.locator("#text")).to_have_value(text)
    expect(page.locator(".token:not(:empty)").first).to_be_visible()


def test_history_is_kept_in_the_browser_until_it_is_forgotten(context: BrowserContext, page: Page) -> None:
    expect(page.locator("#history")).to_be_hidden()
    for text, translation in (("Yes.", "Oui."), (CAT, CHAT), (f"{CAT} Yes.", f"{CHAT} Oui."), ("Yes.", "Oui.")):
        page.locator("#text").fill(text)
        expect(page.locator("#announcement")).to_have_text(translation)
    page.get_by_text("History").click()
    rows = page.locator("#history li")
    expect(rows).to_have_count(2)
    assert rows.first.inner_text().split("\n") == ["English → French", "Yes.", "Oui."]
    other = context.new_page()
    other.goto("/")
    other.get_by_text("History").click()
    other.get_by_role("button", name=f"{CAT} Yes.").click()
    expect(other.locator("#text")).to_have_value(f"{CAT} Yes.")
    expect(other.locator("#output")).to_have_text(f"{CHAT} Oui.")
    other.get_by_role("button", name="Forget all").click()
    expect(other.locator("#history")).to_be_hidden()
    assert other.evaluate("localStorage.getItem('history')") is None
    other.close()


def test_a_damaged_history_is_an_empty_one(page: Page) -> None:
    page.evaluate("localStorage.setItem('history', '[{')")
    page.evaluate("localStorage.setItem('terms', '[3, null, {\"term\": 1}]')")
    page.evaluate("localStorage.setItem('languages', '[]')")
    page.reload()
    expect(page.locator("#history")).to_be_hidden()
    page.locator("#text").fill("Yes.")
    expect(page.locator("#history li")).to_have_count(1, timeout=30_000)


def test_one_entry_of_the_history_is_deleted(page: Page) -> None:
    for text, translation in (("Yes.", "Oui."), (CAT, CHAT)):
        page.locator("#text").fill(text)
        expect(page.locator("#announcement")).to_have_text(translation)
    page.get_by_text("History").click()
    page.get_by_role("button", name="Delete this entry").first.click()
    expect(page.locator("#history .line")).to_have_text(["Yes.", "Oui."])
    expect(page.get_by_role("button", name="Delete this entry")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#history")).to_be_hidden()


def test_a_link_is_copied(context: BrowserContext, page: Page) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    expect(page.locator("#link")).to_be_hidden()
    page.locator("#text").fill(CAT)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert parse_qs(urlsplit(link).query) == {"q": [CAT], "source": ["en"], "target": ["fr"]}
    other = context.new_page()
    other.goto(link)
    expect(other.locator("#output")).to_have_text(CHAT)
    page.locator("#text").fill(CAT * 200)
    expect(page.locator("#link")).to_be_hidden()  # no address has room for it
