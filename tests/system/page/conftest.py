"""The open page in a real Chromium."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.system.browser import run_browser
from tests.system.conftest import Server
from tests.system.page.pages import DESKTOP, listened

expect.set_options(timeout=30_000)  # for machines that have other work


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with run_browser() as running:
        yield running


@pytest.fixture
def complaints() -> list[str]:
    """Collect errors on the browser's console, violations of the content policy included."""
    return []


@pytest.fixture
def context(browser: Browser, server: Server) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=server.url, viewport=DESKTOP)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Iterator[Page]:
    """The open page; whatever a test does with it, it must not complain."""
    page = listened(context.new_page(), complaints)
    page.goto("/")
    expect(page.locator("#from")).to_have_value("en")
    yield page
    assert not complaints
