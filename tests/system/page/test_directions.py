"""The direction of a translation: by the browser's languages, turned by one click, and told where it is wrong."""

import pytest
from playwright.sync_api import Browser, BrowserContext, FilePayload, Page, expect

from service.settings import EMBEDDED_MODELS
from tests.system.browser import needs_chromium
from tests.system.conftest import Server, shared_server
from tests.system.page.pages import body_of, listened, translate, wait_until_done

pytestmark = needs_chromium

ENGLISH, FRENCH = "Where is the station? I see a cat.", "Où est la gare ? Je vois un chat."
GERMAN = "Ich möchte ein Bier. Wo ist der Bahnhof?"


# A server of both directions.
both = shared_server("--models", ",".join(map(str, EMBEDDED_MODELS)))


def _open(browser: Browser, server: Server, locale: str, path: str = "/") -> tuple[BrowserContext, Page]:
    context = browser.new_context(base_url=server.url, locale=locale)
    page = listened(context.new_page(), [])
    page.goto(path)
    expect(page.locator("#from")).to_be_enabled()
    return context, page


def _chosen(page: Page) -> tuple[str, str]:
    return page.locator("#from").input_value(), page.locator("#to").input_value()


@pytest.mark.parametrize(("locale", "target"), [("fr-CA", "fr"), ("en-GB", "en"), ("de-DE", "fr")])
def test_the_target_is_the_browsers_language(browser: Browser, both: Server, locale: str, target: str) -> None:
    context, page = _open(browser, both, locale)
    assert _chosen(page) == ("auto", target)
    context.close()


def test_the_last_choice_comes_before_the_browsers_language(browser: Browser, both: Server) -> None:
    context, page = _open(browser, both, "fr-FR")
    page.locator("#from").select_option("fr")
    assert _chosen(page) == ("fr", "en")
    page.goto("/")
    expect(page.locator("#from")).to_have_value("fr")
    page.goto("/?source=en&target=fr")
    expect(page.locator("#from")).to_have_value("en")
    context.close()


def test_a_newcomer_s_text_is_translated_whatever_the_browser_prefers(browser: Browser, both: Server) -> None:
    context, page = _open(browser, both, "en-US")
    translate(page, "Hello")  # the server, which cannot tell, takes it for French
    expect(page.locator("#output")).to_have_text("Bonjour")
    for text, target in ((FRENCH, "en"), (ENGLISH, "fr"), (FRENCH, "en"), (ENGLISH, "fr")):
        translate(page, text)
        expect(page.locator("#to")).to_have_value(target)
        wait_until_done(page)
        expect(page.locator("#output")).to_have_text(ENGLISH if target == "en" else FRENCH)
        expect(page.locator("#hint")).to_be_hidden()
    assert page.locator("#from").input_value() == "auto"
    # What the page has chosen itself and written into its address is no choice after a reload either.
    page.reload()
    translate(page, FRENCH)
    expect(page.locator("#to")).to_have_value("en")
    context.close()


def test_a_newcomer_s_document_too(browser: Browser, both: Server) -> None:
    context, page = _open(browser, both, "en-US")
    for text, name in ((ENGLISH, "words.fr.txt"), (FRENCH, "words.en.txt")):
        file = FilePayload(name="words.txt", mimeType="text/plain", buffer=text.encode())
        page.get_by_label("Translate a document").set_input_files(file)
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        assert download.value.suggested_filename == name
    context.close()


def test_a_text_that_is_in_the_chosen_target_is_turned_by_one_click(browser: Browser, both: Server) -> None:
    context, page = _open(browser, both, "fr-FR")
    page.locator("#to").select_option("en")
    page.locator("#text").fill(ENGLISH)
    expect(page.locator("#hint")).to_contain_text("Ce texte est déjà en anglais.")
    page.locator("#hint").get_by_role("button", name="anglais → français").click()
    expect(page.locator("#output")).to_have_text(FRENCH)
    assert _chosen(page) == ("en", "fr")
    expect(page.locator("#hint")).to_be_hidden()
    # The same with a source that was chosen.
    page.locator("#text").fill(FRENCH)
    expect(page.locator("#hint")).to_contain_text("Ce texte est déjà en français.")
    page.locator("#hint").get_by_role("button", name="français → anglais").click()
    expect(page.locator("#from")).to_have_value("fr")
    context.close()


def test_what_was_detected_is_of_the_text_that_stands_there(browser: Browser, both: Server) -> None:
    context, page = _open(browser, both, "fr-FR")
    for text in (GERMAN, "12345", ""):
        translate(page, ENGLISH)
        expect(page.locator("#detected")).to_have_text("langue détectée : anglais")
        translate(page, text)
        expect(page.locator("#detected")).to_be_empty()
    context.close()


def test_swapping_takes_the_detected_language(browser: Browser, both: Server) -> None:
    context, page = _open(browser, both, "fr-FR")
    translate(page, ENGLISH)
    expect(page.locator("#detected")).to_have_text("langue détectée : anglais")
    with page.expect_request("**/translate") as sent:
        page.locator("#swap").click()
    body = body_of(sent.value)
    assert (body["q"], body["source"], body["target"]) == (FRENCH, "fr", "en")
    context.close()


def test_swapping_live_takes_what_stands_there_and_a_wrong_direction_is_told(browser: Browser, both: Server) -> None:
    context, page = _open(browser, both, "fr-FR", "/?source=en&target=fr")
    page.locator("#live-text").check()
    page.locator("#text").press_sequentially(ENGLISH.rstrip("."))
    expect(page.locator("#output")).to_have_text(FRENCH.rstrip("."))  # its last words are a draft
    page.locator("#swap").click()
    expect(page.locator("#text")).to_have_value(FRENCH.rstrip("."))
    expect(page.locator("#output")).to_have_text(ENGLISH.rstrip("."))
    page.locator("#text").fill(ENGLISH)
    expect(page.locator("#hint")).to_contain_text("Ce texte est déjà en anglais.")
    page.locator("#from").select_option("auto")
    page.locator("#text").fill(GERMAN)
    expect(page.locator("#hint")).to_contain_text("Ce texte semble être en allemand")
    context.close()


def test_swapping_an_empty_page(browser: Browser, both: Server) -> None:
    context, page = _open(browser, both, "fr-FR")
    page.locator("#swap").click()
    assert _chosen(page) == ("fr", "en")
    page.locator("#swap").click()
    assert _chosen(page) == ("en", "fr")
    context.close()


def test_a_language_that_nothing_translates_is_named(browser: Browser, both: Server) -> None:
    """A request with detection is refused, and its reader is told in his own language."""
    context, page = _open(browser, both, "fr-FR")
    page.locator("#text").fill(GERMAN)
    expect(page.locator("#hint")).to_have_text(
        "Ce texte semble être en allemand, une langue qui n’est pas traduite ici."
    )
    expect(page.locator("#language-error")).to_be_empty()
    page.locator("#text").fill(ENGLISH)
    expect(page.locator("#output")).to_have_text(FRENCH)
    expect(page.locator("#hint")).to_be_hidden()
    context.close()


def test_a_model_of_one_direction_names_it_too(page: Page) -> None:
    translate(page, GERMAN)
    expect(page.locator("#hint")).to_have_text("This text seems to be in German, which is not translated here.")
    translate(page, FRENCH)
    expect(page.locator("#hint")).to_have_text("This text is already in French.")
    expect(page.locator("#hint button")).to_be_hidden()
    for text in (ENGLISH, "Bier", "12 12"):
        translate(page, text)
        wait_until_done(page)
        expect(page.locator("#hint")).to_be_hidden()
