"""The page while people translate, and the requests that it leaves on the server."""

import json
import re

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.system.browser import needs_chromium
from tests.system.conftest import Server
from tests.system.page.pages import body_of, choose_beam_width, listened, wait_until_done
from tests.system.sentences import LONG_TEXT

pytestmark = needs_chromium


def test_what_is_typed_is_translated(page: Page, server: Server) -> None:
    page.locator("#text").press_sequentially("I see a cat.", delay=5)
    expect(page.locator("#output")).to_have_text("Je vois un chat.")
    expect(page.locator("#timing")).to_have_text(
        # Numbers of this request: time, tokens, rate.
        re.compile(r"^First token \d+ ms · 7 tokens · \d+ tokens/s$")
    )
    expect(page.locator("#count")).to_have_text("12 of 50,000 characters")
    expect(page.locator("#announcement")).to_have_text("Je vois un chat.")
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
    page.locator("#translate").click()
    expect(page.locator("#stop")).to_be_enabled()
    assert held
    held[0].continue_()
    expect(page.locator("#output")).to_have_text("Je vois un chat.")
    assert not complaints


def test_keys_translate_when_typing_does_not(page: Page) -> None:
    page.get_by_label("Translate as I type").uncheck()
    page.locator("#text").fill("I see a cat.")
    page.locator("#text").press("Control+Enter")
    expect(page.locator("#output")).to_have_text("Je vois un chat.")


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
    expect(page.locator("#timing")).to_have_text("4 tokens")


@pytest.mark.parametrize("how", ["button", "key"])
def test_stop_frees_the_slots(page: Page, server: Server, how: str) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    page.locator("#text").fill(LONG_TEXT)
    expect(page.locator(".token:not(:empty)").first).to_be_visible()
    if how == "button":
        page.get_by_role("button", name="Stop").click()
    else:
        page.keyboard.press("Escape")
    expect(page.locator("#timing")).to_contain_text("Stopped after")
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()
    server.wait_for_metric("dragoman_slots_used", 0)
    server.wait_for_metric("dragoman_requests_total", cancelled + 1, 'outcome="cancelled"')
    expect(page.locator("#output")).not_to_be_empty()


def test_errors_are_shown_where_they_belong(page: Page, complaints: list[str]) -> None:
    page.locator("#text").fill("I see a cat.")
    wait_until_done(page)
    page.locator("#alternatives").select_option("3")
    choose_beam_width(page, "2")
    expect(page.locator("#option-error")).to_have_text("must be at least 4 for so many alternatives")
    choose_beam_width(page, "")
    expect(page.locator("#option-error")).to_be_empty()
    wait_until_done(page)
    page.locator("#text").fill("x" * 50_001)
    expect(page.locator("#text-error")).to_have_text("50001 characters, the limit is 50000")
    expect(page.locator("#timing")).to_be_empty()
    expect(page.locator("#text")).to_have_attribute("aria-invalid", "true")
    page.route("**/translate", lambda route: route.abort())
    page.locator("#text").fill("Yes.")
    expect(page.locator("#text-error")).to_be_empty()
    expect(page.locator("#output-error")).not_to_be_empty()
    # The browser itself notes each refused request.
    assert len(complaints) == 3
    complaints.clear()


def test_alternatives_and_the_beam(context: BrowserContext, page: Page) -> None:
    page.locator("#alternatives").select_option("3")
    page.locator("#text").fill("The old man is waiting for my friends.")
    wait_until_done(page)
    assert page.locator("#others li").count() >= 2
    assert page.locator("#hypotheses .bar").count() == 1 + page.locator("#others li").count()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy alternative 2").click()
    expect(page.locator("#others li").nth(1).get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#others li .text").nth(1).inner_text()
    page.locator("#alternatives").select_option("0")
    expect(page.locator("#others")).to_be_hidden()


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
        ("segment", {"segment": 0, "text_index": 0, "text": "Ja.", "score": -0.5, "finish_reason": "stop"}),
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
    assert page.locator("#to option").all_text_contents() == ["German (is downloaded first)", "French"]
    page.evaluate(
        """() => {
            window.seen = [];
            const timing = document.getElementById("timing");
            new MutationObserver(() => window.seen.push(timing.textContent)).observe(timing, { childList: true });
        }"""
    )
    page.locator("#text").fill("Yes.")
    expect(page.locator("#output")).to_have_text("Ja.")
    assert "argos:en-de: downloading 40 %" in page.evaluate("window.seen")


def test_what_would_be_a_copy_is_not_offered(page: Page) -> None:
    """`/languages` lists it, for LibreTranslate's clients."""
    assert page.locator("#from option").all_text_contents() == ["English"]
    assert page.locator("#to option").all_text_contents() == ["French"]


def test_a_server_of_one_direction_does_not_swap(page: Page) -> None:
    expect(page.get_by_role("button", name="Swap languages")).to_be_disabled()


def test_copy(context: BrowserContext, page: Page) -> None:
    expect(page.get_by_role("button", name="Copy")).to_be_disabled()
    page.locator("#text").fill("I see a cat.")
    wait_until_done(page)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "Je vois un chat."
