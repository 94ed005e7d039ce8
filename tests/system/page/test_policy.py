"""The page's content security policy."""

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.system.browser import needs_chromium
from tests.system.conftest import Server
from tests.system.page.pages import listened

pytestmark = needs_chromium


@pytest.mark.parametrize(
    ("path", "sign"), [("/", "#from option"), pytest.param("/docs", ".opblock", marks=pytest.mark.slow)]
)
def test_nothing_comes_from_elsewhere(
    context: BrowserContext, server: Server, path: str, sign: str, complaints: list[str]
) -> None:
    page = listened(context.new_page(), complaints)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    response = page.goto(path)
    page.locator(sign).first.wait_for(state="attached")
    assert asked
    assert all(url.startswith((server.url, "data:")) for url in asked), asked
    assert response is not None
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "script-src 'self';" in policy
    assert not complaints


def test_a_script_that_gets_into_the_page_does_not_run(page: Page, complaints: list[str]) -> None:
    page.evaluate("document.body.append(Object.assign(document.createElement('img'), {src: 'x:', onerror: null}))")
    page.evaluate("""() => {
        const button = document.createElement("button");
        try { button.setAttribute("onclick", "document.title = 'broken'"); } catch { }
        document.body.append(button);
        button.click();
    }""")
    assert page.title() == "Dragoman"
    assert any("Content Security Policy" in each or "TrustedScript" in each for each in complaints)
    complaints.clear()
