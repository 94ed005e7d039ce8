"""The page of a server that is busy, wants a key, or translates by way of another language."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from service.access.key_store import KeyLimits, KeyStore
from service.settings import EMBEDDED_MODEL
from tests.system.browser import needs_chromium
from tests.system.conftest import Server, StartServer, run_server
from tests.system.models import relabel_embedded_model
from tests.system.page.pages import PHONE, listened, open_inside, record, recorded, wait_until_done, width_of
from tests.system.sentences import LONG_TEXT

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def pivoting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that translates into Italian by way of French."""
    directory = tmp_path_factory.mktemp("models")
    (directory / "en-fr").symlink_to(EMBEDDED_MODEL)
    relabel_embedded_model(directory / "fr-it", "fr-it")
    with run_server(tmp_path_factory.mktemp("server") / "log", "--models", str(directory)) as running:
        yield running


def test_a_busy_server_is_waited_for(start_server: StartServer, browser: Browser) -> None:
    body = {"q": LONG_TEXT, "source": "en", "target": "fr", "stream": True}
    with (
        start_server("--slots", "1", "--max-waiting", "0") as server,
        browser.new_context(base_url=server.url) as context,
    ):
        page = context.new_page()
        page.goto("/")
        expect(page.locator("#from")).to_have_value("en")
        with httpx.stream("POST", f"{server.url}/translate", json=body):
            server.wait_until_busy()
            page.locator("#text").fill("Yes.")
            expect(page.locator("#state")).to_have_text("The server is busy. Trying again …")
        expect(page.locator("#output")).to_have_text("Oui.")
        expect(page.locator("#state")).to_be_empty()


def test_a_server_that_wants_a_key_is_given_one_and_shows_what_its_memory_has(
    browser: Browser, start_server: StartServer, tmp_path: Path, complaints: list[str]
) -> None:
    path = tmp_path / "keys.db"
    with closing(KeyStore(path, create=True)) as file:
        key = file.add("page", KeyLimits())
    memory = tmp_path / "memory.en-fr.tsv"
    memory.write_text("I see a cap.\tJe vois une casquette.\n")
    with (
        start_server("--keys", str(path), "--memory", str(memory)) as server,
        browser.new_context(base_url=server.url, viewport=PHONE) as context,
    ):
        page = listened(context.new_page(), complaints)
        page.goto("/")
        page.locator("#text").fill("I see a cat.")
        expect(page.locator("#key-error")).to_have_text("This server requires an API key.")
        page.get_by_label("API key").fill("wrong")
        expect(page.locator("#key-error")).to_have_text("This is not a valid API key.")
        page.get_by_label("API key").fill(key)
        expect(page.locator("#output")).to_have_text("Je vois un chat.")
        expect(page.locator("#key-error")).to_be_empty()
        expect(page.locator("#memory li .entry > *")).to_have_text(["91 %", "I see a cap.", "Je vois une casquette."])
        assert width_of(page) == PHONE["width"]
        page.locator("#text").fill("Yes.")
        expect(page.locator("#output")).to_have_text("Oui.")
        expect(page.locator("#memory")).to_be_hidden()
        page.reload()
        expect(page.get_by_label("API key")).to_have_value(key)
        # Kept for this tab only, and not where a later visitor of the machine would find it.
        assert key not in page.evaluate(
            "JSON.stringify({ ...localStorage }) + location.href + JSON.stringify(history.state)"
        )
        assert not context.cookies()
    # What the server refuses, the browser writes down as well.
    assert all("status of 40" in complaint for complaint in complaints)


def test_what_goes_by_way_of_another_language_says_so(browser: Browser, pivoting: Server) -> None:
    """The inside is open: there is no cross-attention from end to end, and the rest is the second model's."""
    with closing(browser.new_page(base_url=pivoting.url)) as page:
        page.goto("/")
        page.locator("#from").select_option("en")
        page.locator("#to").select_option("it")
        open_inside(page)
        page.locator("#text").fill("The cat sat on the mat.")
        wait_until_done(page)
        expect(page.locator("#detected")).to_have_text("by way of French")
        expect(page.locator("#output .token:not(:empty)").first).to_be_visible()
        expect(page.locator("#cross")).to_be_hidden()
        expect(page.locator("#own .weighted").first).to_be_visible()
        page.locator("#output .token:not(:empty)").first.click()
        expect(page.locator("#ways .sentences button").first).to_be_visible()
        expect(page.locator("#ways .from")).to_be_empty()  # nothing says which word it comes from


def test_other_languages_begin_anew_and_a_pivoting_route_is_live(browser: Browser, pivoting: Server) -> None:
    with closing(browser.new_page(base_url=pivoting.url)) as page:
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
        record(page)
        first = committed.text_content() or ""
        page.locator("#text").press_sequentially("The old man who lives next door has many books. ")
        expect(committed).not_to_have_text(first)  # before the first update the draft is empty, too
        expect(page.locator("#output .draft")).to_be_empty()
        assert len(recorded(page)) > 1
