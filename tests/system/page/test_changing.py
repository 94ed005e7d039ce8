"""A translation that its reader changes: other words, other sentences, terms, and a correction by hand."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.system.browser import needs_chromium
from tests.system.conftest import StartServer
from tests.system.page.pages import body_of, translate

pytestmark = needs_chromium

TEXT = "I would like to visit Paris next summer. Yes."
TRANSLATION = "Je voudrais visiter Paris l'été prochain. Oui."


@pytest.fixture
def page(page: Page) -> Page:
    """The page with a translation."""
    translate(page, TEXT)
    expect(page.locator("#output")).to_have_text(TRANSLATION)
    return page


def _choose(page: Page, word: str) -> None:
    page.locator("#output .token", has_text=word).first.click()
    expect(page.locator("#ways .state")).to_be_empty()


def test_another_word_is_chosen_and_the_rest_follows(page: Page) -> None:
    _choose(page, "visit")
    expect(page.locator("#ways .word")).to_have_text("visiter")
    expect(page.locator("#ways .from")).to_have_text("visit")
    options = page.locator("#ways .words button")
    assert "… rendre visite à Paris l'été prochain." in options.all_inner_texts()
    options.filter(has_text="rendre visite").first.click()
    expect(page.locator("#ways")).to_be_hidden()
    expect(page.locator("#output")).to_have_text("Je voudrais rendre visite à Paris l'été prochain. Oui.")
    expect(page.locator("#announcement")).to_have_text("Je voudrais rendre visite à Paris l'été prochain. Oui.")
    # What was chosen has other words in its turn.
    _choose(page, "voudrais")
    assert page.locator("#ways .words button").count() > 0
    page.keyboard.press("Escape")
    page.locator("#undo").click()
    expect(page.locator("#output")).to_have_text(TRANSLATION)
    expect(page.locator("#changed")).to_be_hidden()


def test_a_word_with_a_capital_has_others_with_one(page: Page) -> None:
    _choose(page, "Je")
    texts = page.locator("#ways .words button b").all_inner_texts()
    assert texts
    assert all(each[0].isupper() for each in texts)


def test_another_sentence_is_chosen_by_keys(page: Page) -> None:
    page.locator("#output").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#output .current")).to_have_text("voudrais")
    page.keyboard.press("Enter")
    expect(page.locator("#ways .sentences button").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#ways .words button").first).to_be_focused()
    page.locator("#ways .sentences button", has_text="J'aimerais").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#output")).to_have_text("J'aimerais visiter Paris l'été prochain. Oui.")
    assert json.loads(page.evaluate("localStorage.getItem('history')"))[0]["translation"].startswith("J'aimerais")


def test_a_word_of_ones_own_is_continued(page: Page) -> None:
    _choose(page, "été")
    page.get_by_label("Another word").fill("l'automne")
    page.get_by_role("button", name="Use").click()
    expect(page.locator("#output")).to_have_text("Je voudrais visiter Paris l'automne prochain. Oui.")


def test_a_term_is_kept_and_sent_where_it_occurs(page: Page) -> None:
    _choose(page, "été")
    page.get_by_role("button", name="Always translate like this").click()
    expect(page.locator("#ways")).to_be_hidden()
    expect(page.get_by_label("Word in the text")).to_have_value("summer")
    expect(page.get_by_label("Its translation")).to_have_value("l'été")
    page.get_by_label("Its translation").fill("printemps")
    with page.expect_request("**/translate") as sent:
        page.locator("#terms form button").click()
    assert body_of(sent.value)["glossary"] == {"summer": "printemps"}
    expect(page.locator("#output")).to_contain_text("printemps")
    with page.expect_request("**/translate") as sent:
        page.locator("#text").fill("I see a cat.")
    assert "glossary" not in body_of(sent.value)
    page.reload()
    page.locator("#terms summary").click()
    expect(page.locator("#terms li")).to_have_text("English → French\nsummer\nprintemps", use_inner_text=True)
    page.get_by_label("Word in the text").fill("cat")
    page.get_by_label("Its translation").fill("matou")
    with page.expect_request("**/translate") as sent:
        page.locator("#terms form button").click()
    assert body_of(sent.value)["glossary"] == {"cat": "matou"}
    page.get_by_role("button", name="Delete this term").first.click()
    expect(page.locator("#terms li")).to_have_count(1)


def test_a_correction_is_suggested_to_a_server_that_keeps_it(
    browser: Browser, start_server: StartServer, tmp_path: Path
) -> None:
    path = tmp_path / "suggestions.jsonl"
    with (
        start_server("--suggestions", str(path)) as server,
        browser.new_context(base_url=server.url) as context,
    ):
        page = context.new_page()
        page.goto("/")
        translate(page, "I see a cat. Yes.")
        page.get_by_role("button", name="Correct").click()
        page.locator("#editor").fill("Je vois un matou. Oui.")
        page.get_by_role("button", name="Done").click()
        expect(page.locator("#output")).to_have_text("Je vois un matou. Oui.")
        page.locator("#suggest").click()
        expect(page.locator("#state")).to_have_text("Thank you. The server has kept your suggestion.")
        kept = json.loads(path.read_text())
        assert (kept["q"], kept["s"]) == ("I see a cat. Yes.", "Je vois un matou. Oui.")
        # Its other sentence can still be chosen from.
        page.locator("#output .token", has_text="Oui").click()
        expect(page.locator("#ways .word")).to_have_text("Oui")


def test_a_correction_may_be_given_up_and_may_change_everything(page: Page) -> None:
    page.get_by_role("button", name="Correct").click()
    page.locator("#editor").fill("?")
    page.keyboard.press("Escape")
    expect(page.locator("#output")).to_have_text(TRANSLATION)
    expect(page.locator("#changed")).to_be_hidden()
    page.get_by_role("button", name="Correct").click()
    page.locator("#editor").fill("Autre chose.")
    page.locator("#editor").press("Control+Enter")
    expect(page.locator("#output")).to_have_text("Autre chose.")
    expect(page.locator("#suggest")).to_be_hidden()  # this server keeps none
    page.locator("#undo").click()
    expect(page.locator("#output")).to_have_text(TRANSLATION)


def test_who_types_on_while_he_corrects_keeps_the_caret(page: Page) -> None:
    page.get_by_role("button", name="Correct").click()
    page.locator("#text").fill("I see a cat.")
    expect(page.locator("#output")).to_have_text("Je vois un chat.")
    expect(page.locator("#text")).to_be_focused()
    expect(page.locator("#editor")).to_be_hidden()


def test_a_server_that_is_gone_has_no_other_words(page: Page, complaints: list[str]) -> None:
    page.route("**/translate", lambda route: route.abort())
    page.locator("#output .token", has_text="Paris").click()
    expect(page.locator("#ways .state")).to_have_text("Other ways cannot be found at the moment.")
    complaints.clear()
