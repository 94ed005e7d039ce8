"""Live translation on the page, and its captions in another window."""

import json
import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.system.browser import needs_chromium
from tests.system.conftest import Server
from tests.system.page.pages import PHONE, captions_of, every_look, listened, looked_at, record, recorded, width_of
from tests.system.sentences import SENTENCES

pytestmark = needs_chromium

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


def test_a_long_text_is_only_appended_and_captions_follow(page: Page, complaints: list[str]) -> None:
    text = " ".join([*SENTENCES[:3], "My sister is long. "])
    page.locator("#live-text").check()
    captions = captions_of(page)
    page.bring_to_front()
    record(page)
    page.locator("#text").press_sequentially(text)
    expect(page.locator("#output .draft")).to_be_empty()
    expect(page.locator("#output .committed")).to_contain_text(re.compile(r"longue\.\s*$"))
    page.wait_for_function("location.search.endsWith('long.+')")  # the address follows a pause in typing
    texts = recorded(page)
    assert len(texts) > 4
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


@every_look(("dark", True))
def test_it_fits_and_axe_finds_nothing(browser: Browser, server: Server, scheme: str, narrow: bool) -> None:
    with looked_at(browser, server, scheme, PHONE, locale="ar-EG" if narrow else "en-GB") as page:
        page.locator("#live-text").check()
        page.locator("#text").press_sequentially("The old man who lives next door has many books ")
        expect(page.locator("#output .draft")).not_to_be_empty()
        assert width_of(page) == PHONE["width"]
        captions = captions_of(page)
        captions.goto(captions.url + "&size=5&lines=3")
        expect(captions.locator("#captions")).to_contain_text("vieil homme")
        lines = captions.locator("#captions").evaluate(
            "node => node.clientHeight / parseFloat(getComputedStyle(node).fontSize)"
        )
        assert lines <= 3 * 1.3 + 0.1
        for each in (page, captions):
            found = Axe().run(each)
            assert found.violations_count == 0, found.generate_report()
