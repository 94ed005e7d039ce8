"""The direction of a translation: by the browser's languages, turned by one click, and told where it is wrong."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from service.settings import EMBEDDED_MODELS
from tests.system.browser import needs_chromium
from tests.system.conftest import Server, shared_server
from tests.system.page.pages import as_new, body_of, kept_open, translate, wait_until_done

pytestmark = needs_chromium

ENGLISH, FRENCH = "Where is the station? I see a cat.", "Où est la gare ? Je vois un chat."
GERMAN = "Ich möchte ein Bier. Wo ist der Bahnhof?"


# A server of both directions.
both = shared_server("--models", ",".join(map(str, EMBEDDED_MODELS)))


@pytest.fixture
def locale() -> str:
    """Of the reader of `opened`."""
    return "fr-FR"


@pytest.fixture(scope="module")
def kept(browser: Browser, both: Server) -> Callable[[str], Page]:
    """Pages by locale."""
    return cache(lambda locale: kept_open(browser, both, locale=locale))


@pytest.fixture
def opened(kept: Callable[[str], Page], both: Server, locale: str) -> Iterator[Page]:
    """The page of the server of both directions."""
    with as_new(kept(locale), both) as page:
        page.goto("/")
        expect(page.locator("#from")).to_be_enabled()
        yield page


def _chosen(page: Page) -> tuple[str, str]:
    return page.locator("#from").input_value(), page.locator("#to").input_value()


@pytest.mark.parametrize(("locale", "target"), [("en-GB", "en"), ("de-DE", "fr")])
def test_the_target_is_the_browsers_language(opened: Page, target: str) -> None:
    assert _chosen(opened) == ("auto", target)


def test_the_last_choice_comes_before_the_browsers_language(opened: Page) -> None:
    assert _chosen(opened) == ("auto", "fr")
    opened.locator("#from").select_option("fr")
    assert _chosen(opened) == ("fr", "en")
    opened.goto("/")
    expect(opened.locator("#from")).to_have_value("fr")
    opened.goto("/?source=en&target=fr")
    expect(opened.locator("#from")).to_have_value("en")


@pytest.mark.parametrize("locale", ["en-US"])
def test_a_newcomer_s_text_is_translated_whatever_the_browser_prefers(opened: Page) -> None:
    translate(opened, "Hello")  # the server, which cannot tell, takes it for French
    expect(opened.locator("#output")).to_have_text("Bonjour")
    for text, target in ((FRENCH, "en"), (ENGLISH, "fr"), (FRENCH, "en"), (ENGLISH, "fr")):
        translate(opened, text)
        expect(opened.locator("#to")).to_have_value(target)
        wait_until_done(opened)
        expect(opened.locator("#output")).to_have_text(ENGLISH if target == "en" else FRENCH)
        expect(opened.locator("#hint")).to_be_hidden()
    assert opened.locator("#from").input_value() == "auto"
    # What the page has chosen itself and written into its address is no choice after a reload either.
    opened.reload()
    translate(opened, FRENCH)
    expect(opened.locator("#to")).to_have_value("en")


@pytest.mark.parametrize("locale", ["en-US"])
def test_a_newcomer_s_document_too(opened: Page) -> None:
    for text, name in ((ENGLISH, "words.fr.txt"), (FRENCH, "words.en.txt")):
        file = FilePayload(name="words.txt", mimeType="text/plain", buffer=text.encode())
        opened.get_by_label("Translate a document").set_input_files(file)
        with opened.expect_download() as download:
            opened.get_by_role("button", name="Download").click()
        assert download.value.suggested_filename == name


def test_a_text_that_is_in_the_chosen_target_is_turned_by_one_click(opened: Page) -> None:
    opened.locator("#to").select_option("en")
    opened.locator("#text").fill(ENGLISH)
    expect(opened.locator("#hint")).to_contain_text("Ce texte est déjà en anglais.")
    opened.locator("#hint").get_by_role("button", name="anglais → français").click()
    expect(opened.locator("#output")).to_have_text(FRENCH)
    assert _chosen(opened) == ("en", "fr")
    expect(opened.locator("#hint")).to_be_hidden()
    # The same with a source that was chosen.
    opened.locator("#text").fill(FRENCH)
    expect(opened.locator("#hint")).to_contain_text("Ce texte est déjà en français.")
    opened.locator("#hint").get_by_role("button", name="français → anglais").click()
    expect(opened.locator("#from")).to_have_value("fr")


def test_what_was_detected_is_of_the_text_that_stands_there(opened: Page) -> None:
    for text in (GERMAN, "12345", ""):
        translate(opened, ENGLISH)
        expect(opened.locator("#detected")).to_have_text("langue détectée : anglais")
        translate(opened, text)
        expect(opened.locator("#detected")).to_be_empty()


def test_swapping_takes_the_detected_language(opened: Page) -> None:
    for languages in (("fr", "en"), ("en", "fr")):  # without a text
        opened.locator("#swap").click()
        assert _chosen(opened) == languages
    opened.locator("#from").select_option("auto")
    translate(opened, ENGLISH)
    expect(opened.locator("#detected")).to_have_text("langue détectée : anglais")
    with opened.expect_request("**/translate") as sent:
        opened.locator("#swap").click()
    body = body_of(sent.value)
    assert (body["q"], body["source"], body["target"]) == (FRENCH, "fr", "en")


def test_swapping_live_takes_what_stands_there_and_a_wrong_direction_is_told(opened: Page) -> None:
    opened.goto("/?source=en&target=fr")
    expect(opened.locator("#from")).to_be_enabled()
    opened.locator("#live-text").check()
    opened.locator("#text").press_sequentially(ENGLISH.rstrip("."))
    expect(opened.locator("#output")).to_have_text(FRENCH.rstrip("."))  # its last words are a draft
    opened.locator("#swap").click()
    expect(opened.locator("#text")).to_have_value(FRENCH.rstrip("."))
    expect(opened.locator("#output")).to_have_text(ENGLISH.rstrip("."))
    opened.locator("#text").fill(ENGLISH)
    expect(opened.locator("#hint")).to_contain_text("Ce texte est déjà en anglais.")
    opened.locator("#from").select_option("auto")
    opened.locator("#text").fill(GERMAN)
    expect(opened.locator("#hint")).to_contain_text("Ce texte semble être en allemand")


def test_a_language_that_nothing_translates_is_named(opened: Page) -> None:
    """A request with detection is refused, and its reader is told in his own language."""
    opened.locator("#text").fill(GERMAN)
    expect(opened.locator("#hint")).to_have_text(
        "Ce texte semble être en allemand, une langue qui n’est pas traduite ici."
    )
    expect(opened.locator("#language-error")).to_be_empty()
    opened.locator("#text").fill(ENGLISH)
    expect(opened.locator("#output")).to_have_text(FRENCH)
    expect(opened.locator("#hint")).to_be_hidden()


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
