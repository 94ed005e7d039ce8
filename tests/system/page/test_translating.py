"""The page while people translate, and the requests that it leaves on the server."""

import json
import os
import re
import signal
from functools import partial

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.system.browser import needs_chromium
from tests.system.conftest import Server
from tests.system.page.pages import body_of, choose_beam_width, listened, open_inside, translate, wait_until_done
from tests.system.sentences import LONG_TEXT

pytestmark = needs_chromium


def test_what_is_typed_is_translated(page: Page, server: Server) -> None:
    page.locator("#text").press_sequentially("I see a cat.", delay=5)
    expect(page.locator("#output")).to_have_text("Je vois un chat.")
    expect(page.locator("#announcement")).to_have_text("Je vois un chat.")
    expect(page.locator("#state")).to_be_empty()
    if page.evaluate("speechSynthesis.getVoices().length") == 0:
        expect(page.locator("#listen")).to_be_hidden()
    open_inside(page)
    expect(page.locator("#state")).to_have_text(
        # Numbers of this request, for those who look inside: time, tokens, rate.
        re.compile(r"^First token \d+ ms · 7 tokens · [\d,]+ tokens/s$")
    )
    page.locator("#text").fill("")
    expect(page.locator("#output")).to_be_empty()
    expect(page.locator("#inside-empty")).to_be_visible()


def test_who_types_before_the_languages_are_there_waits_for_them(
    context: BrowserContext, complaints: list[str]
) -> None:
    page = listened(context.new_page(), complaints)
    held: list[Route] = []
    page.route("**/languages", lambda route: held.append(route))
    page.goto("/")
    page.locator("#text").fill("I see a cat.")
    expect(page.locator("#stop")).to_be_visible()
    while not held:  # the request may be on its way
        page.wait_for_timeout(10)
    held[0].continue_()
    expect(page.locator("#output")).to_have_text("Je vois un chat.")
    assert not complaints


def test_tokens_arrive_one_after_the_other(page: Page) -> None:
    """The answer is held back in the middle: what came before is on the page already."""
    events = httpx.post(
        f"{page.url}translate",
        json={"q": "I see a cat.", "source": "en", "target": "fr", "stream": True},
    ).content.split(b"\r\n\r\n")
    script = """
        (() => {
            const half = %s;
            window.fetch = async () => new Response(new ReadableStream({
                start(controller) {
                    const bytes = new TextEncoder().encode(half);
                    // A cut within a field and within a line end must not matter.
                    for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
                },
            }), { headers: { "Content-Type": "text/event-stream" } });
        })()
    """
    page.evaluate(script % json.dumps(b"\r\n\r\n".join([*events[:5], b""]).decode()))
    page.locator("#text").fill("I see a cat.")
    expect(page.locator("#output")).to_have_text("Je vois un")
    expect(page.locator("#output")).to_have_attribute("aria-busy", "true")


@pytest.mark.parametrize("how", ["button", pytest.param("key", marks=pytest.mark.slow)])
def test_stop_frees_the_slots(page: Page, server: Server, how: str) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    generated = server.metric("dragoman_generated_tokens_total")
    [engine] = server.engine_pids()
    page.locator("#text").fill(LONG_TEXT)
    # A busy browser may show the first token when the engine has written the last one.
    server.wait_for_more("dragoman_generated_tokens_total", generated)
    os.kill(engine, signal.SIGSTOP)
    expect(page.locator(".token:not(:empty)").first).to_be_visible()
    if how == "button":
        page.get_by_role("button", name="Stop").click()
    else:
        page.keyboard.press("Escape")
    expect(page.locator("#state")).to_have_text("Stopped.")
    expect(page.locator("#stop")).to_be_hidden()
    os.kill(engine, signal.SIGCONT)
    server.wait_for_metric("dragoman_slots_used", 0)
    server.wait_for_metric("dragoman_requests_total", cancelled + 1, 'outcome="cancelled"')
    expect(page.locator("#output")).not_to_be_empty()


def test_errors_are_shown_where_they_belong(page: Page, complaints: list[str]) -> None:
    translate(page, "I see a cat.")
    page.locator("#text").fill("x" * 50_001)
    expect(page.locator("#text-error")).to_have_text("This text is too long.")
    expect(page.locator("#count")).to_have_text("50,001 of 50,000 characters")
    expect(page.locator("#text")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#output")).to_be_empty()
    page.locator("#text").fill("Yes.")
    expect(page.locator("#text-error")).to_be_empty()
    expect(page.locator("#count")).to_be_empty()
    for answer, words in (
        ({"error": "glossary: too many entries", "code": "invalid_request"}, ""),
        ({"error": "the engine process ended", "code": "engine_failed"}, "Something went wrong on the server."),
    ):
        page.route("**/translate", partial(_refuse, answer=answer))
        page.locator("#text").fill("Yes. No.")
        place = "#output-error" if words else "#terms-error"
        expect(page.locator(place)).to_contain_text(words or "too many entries")
        expect(page.locator(place)).to_be_visible()
        page.unroute("**/translate")
        page.locator("#text").fill("")
    # The browser itself notes each refused request.
    assert len(complaints) == 3
    complaints.clear()


def _refuse(route: Route, answer: object) -> None:
    route.fulfill(status=400, json=answer)


def test_a_beam_shows_its_hypotheses(page: Page) -> None:
    choose_beam_width(page, "4")
    translate(page, "The old man is waiting for my friends.")
    expect(page.locator("#hypotheses .bar")).to_have_count(4)


def test_languages_swap_with_their_texts(context: BrowserContext, complaints: list[str]) -> None:
    """The server here translates both ways, unlike the embedded model."""
    known = [{"code": code, "name": code.upper(), "targets": [other]} for code, other in (("en", "fr"), ("fr", "en"))]
    page = listened(context.new_page(), complaints)
    page.route("**/languages", lambda route: route.fulfill(json=known))
    page.goto("/")
    page.locator("#text").fill("I see a cat.")
    wait_until_done(page)
    with page.expect_request("**/translate") as sent:
        page.get_by_role("button", name="Swap languages").click()
    body = body_of(sent.value)
    assert (body["q"], body["source"], body["target"]) == ("Je vois un chat.", "fr", "en")
    expect(page.locator("#language-error")).to_have_text("en is not supported; available: fr")
    complaints.clear()


def test_a_model_that_is_fetched_is_shown(context: BrowserContext, complaints: list[str]) -> None:
    known = [{"code": "en", "name": "English", "targets": ["de", "fr"], "downloadable": ["de"]}]
    events = [
        ("start", {"id": "a", "source": "en", "target": "de"}),
        ("loading", {"model": "argos:en-de", "step": "downloading", "percent": 40}),
        ("token", {"segment": 0, "index": 0, "text": "Ja.", "logprob": -0.5}),
        (
            "segment",
            {"segment": 0, "text_index": 0, "text": "Ja.", "score": -0.5, "finish_reason": "stop", "source": [0, 4]},
        ),
        (
            "done",
            {
                "translatedText": "Ja.",
                "usage": {"segments": 1, "source_tokens": 2, "generated_tokens": 2},
                "timings": {"time_to_first_token_seconds": 1.0, "total_seconds": 1.0},
            },
        ),
    ]
    body = "".join(f"event: {name}\r\ndata: {json.dumps(data)}\r\n\r\n" for name, data in events)
    page = listened(context.new_page(), complaints)
    page.route("**/languages", lambda route: route.fulfill(json=known))
    page.route("**/translate", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    page.goto("/")
    expect(page.locator("#to option")).to_have_text(["French", "German (is downloaded first)"])
    page.locator("#to").select_option("de")
    page.evaluate(
        """() => {
            window.seen = [];
            const state = document.getElementById("state");
            new MutationObserver(() => window.seen.push(state.textContent)).observe(state, { childList: true });
        }"""
    )
    page.locator("#text").fill("Yes.")
    expect(page.locator("#output")).to_have_text("Ja.")
    assert "Fetching a model: argos:en-de 40%" in page.evaluate("window.seen")


def test_languages_without_a_name_in_browsers_have_the_servers(context: BrowserContext) -> None:
    known = [
        {"code": "eng_Latn", "name": "English (NLLB)", "targets": ["qqx"]},
        {"code": "qqx", "name": "Test", "targets": []},
    ]
    page = context.new_page()
    page.route("**/languages", lambda route: route.fulfill(json=known))
    page.goto("/")
    expect(page.locator("#from option")).to_have_text(["English (NLLB)"])
    expect(page.locator("#to option")).to_have_text(["Test"])


def test_a_server_of_one_direction_does_not_swap(page: Page) -> None:
    """It says so, too, on machines whose pointer cannot rest on a button, and offers no copy, which `/languages` lists
    for LibreTranslate's clients."""
    assert page.locator("#from option").all_text_contents() == ["English"]
    assert page.locator("#to option").all_text_contents() == ["French"]
    expect(page.get_by_label("API key")).to_be_hidden()
    swap = page.get_by_role("button", name="Swap languages")
    expect(swap).to_have_attribute("aria-disabled", "true")
    swap.click(force=True)
    expect(page.locator("#note")).to_have_text("This server does not translate from French into English.")


def test_keys_translate_when_typing_does_not_and_a_button_copies(context: BrowserContext, page: Page) -> None:
    expect(page.get_by_role("button", name="Copy", exact=True)).to_be_disabled()
    page.get_by_label("Translate as I type").uncheck()
    page.locator("#text").fill("I see a cat.")
    page.locator("#text").press("Control+Enter")
    expect(page.locator("#output")).to_have_text("Je vois un chat.")
    wait_until_done(page)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "Je vois un chat."
