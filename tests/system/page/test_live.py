"""Live translation on the page, and its captions in another window."""

import json
import os
import re
import signal
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from service.settings import EMBEDDED_MODEL
from tests.system.browser import needs_chromium
from tests.system.conftest import Server, StartServer, free_port, run_server
from tests.system.models import relabel_embedded_model
from tests.system.page.pages import PHONE, listened, width_of
from tests.system.sentences import SENTENCES

pytestmark = needs_chromium

_RECORD = """node => {
    window.texts = [];
    const note = () => node.textContent !== texts.at(-1) && texts.push(node.textContent);
    new MutationObserver(note).observe(node, { childList: true, subtree: true, characterData: true });
}"""
_RECOGNISER = """
    window.SpeechRecognition = class extends EventTarget {
        constructor() { super(); window.recogniser = this; }
        start() {}
        stop() {}
        hear(...results) {
            const all = results.map(([transcript, isFinal]) => Object.assign([{ transcript }], { isFinal }));
            this.dispatchEvent(Object.assign(new Event("result"), { results: all }));
        }
    };
"""


def _captions(page: Page) -> Page:
    with page.expect_popup() as opened:
        page.locator("a#captions").click()
    return opened.value


def test_two_hundred_words_are_only_appended_and_captions_follow(page: Page, complaints: list[str]) -> None:
    words = " ".join(SENTENCES).split()[:199]
    page.locator("#live-text").check()
    captions = _captions(page)
    page.bring_to_front()
    page.locator("#output .committed").evaluate(_RECORD)
    for word in [*words, "long."]:
        page.locator("#text").press_sequentially(word + " ")
    expect(page.locator("#output .draft")).to_be_empty()
    expect(page.locator("#output .committed")).to_contain_text(re.compile(r"longue\.\s*$"))
    page.wait_for_function("location.search.endsWith('long.+')")  # the address follows a pause in typing
    texts = page.evaluate("texts")
    assert len(texts) > 60
    assert [each for each in pairwise(texts) if not each[1].startswith(each[0])] == []
    expect(captions.locator("#captions")).to_contain_text(texts[-1][-150:].strip())
    assert captions.locator("p").count() <= 3
    page.reload()  # another session, to which the captions go over
    expect(page.locator("#output .committed")).to_contain_text("Ma sœur est longue.")
    page.locator("#text").fill("Yes.")
    expect(captions.locator("#captions")).to_have_text("Oui.")
    assert page.evaluate("location.search").endswith("q=Yes.")
    assert not complaints


def test_a_correction_is_sent_alone_and_what_is_committed_stays(page: Page) -> None:
    sent: list[str] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    page.locator("#live-text").check()
    text = "The old man 🎈 who lives next door has many books. He likes his "
    page.locator("#text").press_sequentially(text)
    # Where the balloon stands depends on which words were committed before the sentence was whole.
    expect(page.locator("#output .committed")).to_contain_text(re.compile(r"livres( 🎈)?\."))
    before = page.locator("#output .committed").text_content() or ""
    page.locator("#text").evaluate("area => area.setSelectionRange(4, 7)")
    page.keyboard.type("young")
    expect(page.locator("#state")).to_have_text("What is translated already stays.")
    assert json.loads(sent[-1]) == {"replace_from": 8, "text": "g" + text[7:]}
    page.keyboard.press("Control+End")
    page.keyboard.type("dog. ")
    expect(page.locator("#output .committed")).to_contain_text(re.compile(r"chien\. $"))
    after = page.locator("#output .committed").text_content() or ""
    assert after.startswith(before.rstrip())
    page.get_by_role("button", name="Copy", exact=True).click()
    page.locator("#clear").click()
    expect(page.locator("#output .committed")).to_be_empty()
    page.get_by_role("switch", name="Live").uncheck()
    page.locator("#text").fill("I see a cat.")
    expect(page.locator("#output .token:not(:empty)").first).to_be_visible()
    expect(page.locator("#output")).to_have_text("Je vois un chat.")


def test_a_server_that_dies_goes_on_where_it_was(browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    with run_server(tmp_path / "first.log", port=port) as first, browser.new_context(base_url=first.url) as context:
        page = context.new_page()
        page.goto("/")
        expect(page.locator("#from")).to_have_value("en")
        page.locator("#live-text").check()
        captions = _captions(page)
        page.bring_to_front()
        page.locator("#output .committed").evaluate(_RECORD)
        page.locator("#text").press_sequentially("The cat is black. The old man who lives next door has many ")
        expect(page.locator("#output .committed")).to_contain_text("homme")
        page.wait_for_timeout(1000)  # captions that have missed words begin anew
        expect(captions.locator("#captions")).to_have_text(
            (page.locator("#output .committed").text_content() or "").strip()
        )
        os.killpg(first.process.pid, signal.SIGKILL)
        first.process.wait()
        expect(page.locator("#state")).to_have_text("The server does not answer. Trying again …")
        page.locator("#text").press_sequentially("books. ")
        with run_server(tmp_path / "second.log", port=port, ready=False):
            expect(page.locator("#output .committed")).to_contain_text("livres.", timeout=120_000)
            expect(page.locator("#state")).to_be_empty()
            text = page.locator("#output .committed").text_content() or ""
            expect(captions.locator("#captions")).to_have_text(text.strip())
            texts = page.evaluate("texts")
            assert [each for each in pairwise(texts) if not each[1].startswith(each[0])] == []


def test_other_languages_begin_anew_and_a_pivoting_route_is_live(
    browser: Browser, start_server: StartServer, tmp_path: Path
) -> None:
    directory = tmp_path / "models"
    directory.mkdir()
    (directory / "en-fr").symlink_to(EMBEDDED_MODEL)
    relabel_embedded_model(directory / "fr-it", "fr-it")
    with start_server("--models", str(directory)) as server, closing(browser.new_page(base_url=server.url)) as page:
        page.goto("/")
        page.locator("#from").select_option("auto")
        page.locator("#to").select_option("fr")
        page.locator("#live-text").check()
        page.locator("#text").press_sequentially("The old man sleeps well. ")
        expect(page.locator("#output .committed")).to_have_text("Le vieil homme dort bien.")
        expect(page.locator("#from")).to_have_value("en")  # found in the text
        page.locator("#to").select_option("it")
        committed = page.locator("#output .committed")
        expect(committed).not_to_contain_text("vieil homme dort bien")
        expect(committed).not_to_be_empty()
        committed.evaluate(_RECORD)
        first = committed.text_content() or ""
        page.locator("#text").press_sequentially("The old man who lives next door has many books. ")
        expect(committed).not_to_have_text(first)  # before the first update the draft is empty, too
        expect(page.locator("#output .draft")).to_be_empty()
        texts = [first, *page.evaluate("texts")]
        assert [each for each in pairwise(texts) if not each[1].startswith(each[0])] == []


def test_what_is_spoken_is_translated(context: BrowserContext, complaints: list[str]) -> None:
    page = listened(context.new_page(), complaints)
    page.add_init_script(_RECOGNISER)
    page.goto("/")
    expect(page.locator("#from")).to_have_value("en")
    page.get_by_role("button", name="Speak").click()
    page.evaluate("recogniser.hear(['I sea', false])")
    page.evaluate("recogniser.hear(['I see a cat', true], ['the cad', false])")
    expect(page.get_by_role("switch", name="Live")).to_be_checked()
    expect(page.locator("#text")).to_have_value("I see a cat\nthe cad")
    expect(page.locator("#output .committed")).to_contain_text("Je vois un chat")
    page.evaluate("recogniser.dispatchEvent(new Event('end'))")  # after a silence
    page.evaluate("recogniser.hear(['Yes', true])")
    expect(page.locator("#text")).to_have_value("I see a cat\nthe cad\nYes")
    expect(page.locator("#output .committed")).to_contain_text("Oui")
    page.evaluate("recogniser.dispatchEvent(Object.assign(new Event('error'), { error: 'not-allowed' }))")
    expect(page.locator("#text-error")).to_have_text("The microphone cannot be used: not-allowed")
    expect(page.get_by_role("button", name="Speak")).to_be_visible()
    assert not complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("locale", ["en-GB", "ar-EG"])
def test_it_fits_and_axe_finds_nothing(browser: Browser, server: Server, scheme: str, locale: str) -> None:
    context = browser.new_context(
        base_url=server.url,
        viewport=PHONE,
        locale=locale,
        color_scheme="dark" if scheme == "dark" else "light",
        bypass_csp=True,  # axe is a script from elsewhere
    )
    page = context.new_page()
    page.goto("/")
    expect(page.locator("#from")).to_have_value("en")
    page.locator("#live-text").check()
    page.locator("#text").press_sequentially("The old man who lives next door has many books ")
    expect(page.locator("#output .draft")).not_to_be_empty()
    assert width_of(page) == PHONE["width"]
    captions = _captions(page)
    captions.goto(captions.url + "&size=5&lines=3")
    expect(captions.locator("#captions")).to_contain_text("vieil homme")
    lines = captions.locator("#captions").evaluate(
        "node => node.clientHeight / parseFloat(getComputedStyle(node).fontSize)"
    )
    assert lines <= 3 * 1.3 + 0.1
    for each in (page, captions):
        found = Axe().run(each)
        assert found.violations_count == 0, found.generate_report()
    context.close()
