"""Reading aloud, by a browser that has voices of its own."""

from playwright.sync_api import BrowserContext, expect

from tests.system.browser import needs_chromium
from tests.system.page.pages import listened, wait_until_done

pytestmark = needs_chromium

_VOICES = """
    (() => {
        window.spoken = [];
        const voices = [
            { lang: "en-US", localService: false, name: "of a network" },
            { lang: "fr-FR", localService: true, name: "of this machine" },
        ];
        window.SpeechSynthesisUtterance = class extends EventTarget {
            constructor(text) { super(); this.text = text; }
        };
        Object.defineProperty(window, "speechSynthesis", { value: {
            getVoices: () => voices,
            speak: (each) => spoken.push(each),
            cancel: () => {},
        } });
    })()
"""


def test_a_translation_is_read_by_a_voice_of_the_machine(context: BrowserContext, complaints: list[str]) -> None:
    page = listened(context.new_page(), complaints)
    page.add_init_script(_VOICES)
    page.goto("/")
    page.locator("#text").fill("I see a cat.")
    wait_until_done(page)
    expect(page.locator("#listen-source")).to_be_hidden()  # its voice would send the text away
    page.get_by_role("button", name="Listen").click()
    [[text, voice]] = page.evaluate("spoken.map(({ text, voice }) => [text, voice.name])")
    assert (text, voice) == ("Je vois un chat.", "of this machine")
    expect(page.get_by_role("button", name="Silence")).to_be_visible()
    page.evaluate("spoken[0].dispatchEvent(new Event('end'))")
    expect(page.get_by_role("button", name="Listen")).to_be_visible()
    assert not complaints
