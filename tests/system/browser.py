"""A real Chromium, with nothing of its own talking to the network."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

_ARGUMENTS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()

EXECUTABLE = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    EXECUTABLE is None, reason="no Chromium: install one, or name it in the variable CHROMIUM"
)


@contextmanager
def run_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=_ARGUMENTS)
        yield browser
        browser.close()
