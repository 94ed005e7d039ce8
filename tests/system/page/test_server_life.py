"""The page while its server starts, dies and returns."""

import os
import signal
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Route, expect

from tests.system.browser import needs_chromium
from tests.system.conftest import free_port, run_server
from tests.system.page.pages import captions_of, listened, record, recorded, translate

pytestmark = needs_chromium

STARTING = {"error": "no model is loaded", "code": "not_ready"}


def test_a_page_that_is_opened_too_early_comes_alive(context: BrowserContext, complaints: list[str]) -> None:
    page = listened(context.new_page(), complaints)
    held = True
    page.route(
        "**/frontend/settings",
        lambda route: route.fulfill(status=503, json=STARTING) if held else route.continue_(),
    )
    page.goto("/")
    expect(page.locator("#state")).to_have_text("The server is starting. The page comes alive by itself.")
    expect(page.locator("#from")).to_be_disabled()
    page.locator("#text").fill("I see a cat.")
    held = False
    expect(page.locator("#output")).to_have_text("Je vois un chat.")
    expect(page.locator("#state")).to_be_empty()
    expect(page.locator("#from")).to_have_value("en")
    assert all("503" in each for each in complaints)


def test_a_server_that_dies_and_returns(browser: Browser, tmp_path: Path) -> None:
    """What is shown meanwhile is the old translation, in grey, and no error of a browser; live text goes on."""
    port = free_port()
    with run_server(tmp_path / "first.log", port=port) as first, browser.new_context(base_url=first.url) as context:
        page, live = context.new_page(), context.new_page()
        for each in (page, live):
            each.goto("/")
            expect(each.locator("#from")).to_have_value("en")
        translate(page, "I see a cat.")
        live.locator("#live-text").check()
        captions = captions_of(live)
        live.bring_to_front()
        record(live)
        # Slowly: words are committed when further ones do not change them.
        words = "The cat is black. The old man who lives next door has many "
        live.locator("#text").press_sequentially(words, delay=30)
        committed = live.locator("#output .committed")
        expect(committed).to_contain_text("homme")
        live.wait_for_timeout(1000)  # captions that have missed words begin anew
        expect(captions.locator("#captions")).to_have_text((committed.text_content() or "").strip())
        os.killpg(first.process.pid, signal.SIGKILL)
        first.process.wait()
        page.locator("#text").fill("Yes.")
        live.locator("#text").press_sequentially("books. ")
        for each in (page, live):
            expect(each.locator("#state")).to_have_text("The server does not answer. Trying again …")
        expect(page.locator("#output")).to_have_text("Je vois un chat.")
        expect(page.locator("#output")).to_have_class("text stale working")
        expect(page.locator("#output-error")).to_be_empty()
        with run_server(tmp_path / "second.log", port=port, ready=False):
            expect(page.locator("#output")).to_have_text("Oui.", timeout=120_000)
            expect(page.locator("#output")).to_have_class("text")
            expect(committed).to_contain_text("livres.", timeout=120_000)
            for each in (page, live):
                expect(each.locator("#state")).to_be_empty()
            expect(captions.locator("#captions")).to_have_text((committed.text_content() or "").strip())
            recorded(live)


def test_a_proxy_without_its_server_is_no_error(context: BrowserContext, complaints: list[str]) -> None:
    page = listened(context.new_page(), complaints)
    answers = [502, 503]

    def answer(route: Route) -> None:
        if answers:
            route.fulfill(status=answers.pop(), content_type="text/html", body="<h1>Bad Gateway</h1>")
        else:
            route.continue_()

    page.route("**/translate", answer)
    targets = ["fr"]
    page.route(
        "**/languages", lambda route: route.fulfill(json=[{"code": "en", "name": "English", "targets": targets}])
    )
    page.goto("/")
    expect(page.locator("#to option")).to_have_text(["French"])
    targets.append("it")
    page.locator("#text").fill("Yes.")
    expect(page.locator("#output")).to_have_text("Oui.")
    assert not answers
    expect(page.locator("#to option")).to_have_text(["French", "Italian"])  # the server that returned has more
    expect(page.locator("#to")).to_have_value("fr")
    assert len(complaints) == 2
