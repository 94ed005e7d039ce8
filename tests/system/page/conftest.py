"""The open page in a real Chromium."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.system.browser import run_browser
from tests.system.conftest import Server
from tests.system.page.pages import as_new, kept_open, listened

expect.set_options(timeout=30_000)  # for machines that have other work


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with run_browser() as running:
        yield running


@pytest.fixture(scope="package")
def kept_complaints() -> list[str]:
    return []


@pytest.fixture
def complaints(kept_complaints: list[str]) -> list[str]:
    """Collect errors on the browser's console, violations of the content policy included."""
    kept_complaints.clear()
    return kept_complaints


@pytest.fixture(scope="package")
def kept_page(browser: Browser, server: Server, kept_complaints: list[str]) -> Page:
    return listened(kept_open(browser, server), kept_complaints)


@pytest.fixture
def context(kept_page: Page, server: Server) -> Iterator[BrowserContext]:
    with as_new(kept_page, server):
        yield kept_page.context


@pytest.fixture
def page(context: BrowserContext, kept_page: Page, complaints: list[str]) -> Iterator[Page]:
    """The open page; whatever a test does with it, it must not complain."""
    kept_page.goto("/")
    expect(kept_page.locator("#from")).to_have_value("en")
    yield kept_page
    assert not complaints
