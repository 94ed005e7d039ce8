"""The page in a real Chromium: what people see, and what it leaves on the server."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Route, ViewportSize, expect

from service.access.keys import KeyFile, KeyLimits
from service.settings import EMBEDDED_MODEL
from tests.system.browser import needs_chromium, run_browser
from tests.system.conftest import Server, StartServer
from tests.system.models import relabel_embedded_model
from tests.system.sentences import LONG_TEXT

pytestmark = needs_chromium

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 360, "height": 740}

expect.set_options(timeout=30_000)  # for machines that have other work


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with run_browser() as running:
        yield running


@pytest.fixture
def complaints() -> list[str]:
    """What the browser wrote to its console: errors, and violations of the policy among them."""
    return []


@pytest.fixture
def context(browser: Browser, server: Server) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=server.url, viewport=DESKTOP)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Iterator[Page]:
    """The open page; whatever a test does with it, it must not complain."""
    page = _listened(context.new_page(), complaints)
    page.goto("/")
    expect(page.locator("#from")).to_have_value("en")
    yield page
    assert not complaints


def _listened(page: Page, complaints: list[str]) -> Page:
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page


def _width(page: Page) -> int:
    width = page.evaluate("document.documentElement.scrollWidth")
    assert isinstance(width, int)
    return width


def _body(request: Request) -> dict[str, object]:
    body: dict[str, object] = json.loads(request.post_data or "")
    return body


def _finish(page: Page) -> None:
    expect(page.locator("#timing")).to_contain_text("tokens/s")


def test_what_is_typed_is_translated(page: Page, server: Server) -> None:
    page.locator("#text").press_sequentially("I am a cat.", delay=5)
    expect(page.locator("#output")).to_have_text("Je suis un chat.")
    expect(page.locator("#timing")).to_have_text(
        # Numbers of this request: time, tokens, rate.
        re.compile(r"^First token \d+ ms · 6 tokens · \d+ tokens/s$")
    )
    expect(page.locator("#count")).to_have_text("11 of 50,000 characters")
    expect(page.locator("#announcement")).to_have_text("Je suis un chat.")
    page.locator("#text").fill("")
    expect(page.locator("#output")).to_be_empty()
    expect(page.locator("#inside-empty")).to_be_visible()


def test_who_types_before_the_languages_are_there_waits_for_them(
    context: BrowserContext, complaints: list[str]
) -> None:
    page = _listened(context.new_page(), complaints)
    held: list[Route] = []
    page.route("**/languages", lambda route: held.append(route))
    page.goto("/")
    page.locator("#text").fill("I am a cat.")
    page.locator("#translate").click()
    expect(page.locator("#stop")).to_be_enabled()
    assert held
    held[0].continue_()
    expect(page.locator("#output")).to_have_text("Je suis un chat.")
    assert not complaints


def test_keys_translate_when_typing_does_not(page: Page) -> None:
    page.get_by_label("Translate as I type").uncheck()
    page.locator("#text").fill("I am a cat.")
    page.locator("#text").press("Control+Enter")
    expect(page.locator("#output")).to_have_text("Je suis un chat.")


def test_tokens_arrive_one_after_the_other(page: Page) -> None:
    """The answer is held back in the middle: what came before is on the page already."""
    events = httpx.post(
        f"{page.url}translate",
        json={"q": "I am a cat.", "source": "en", "target": "fr", "stream": True},
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
    page.evaluate(script % json.dumps(b"\r\n\r\n".join([*events[:4], b""]).decode()))
    page.locator("#text").fill("I am a cat.")
    expect(page.locator("#output")).to_have_text("Je suis un")
    expect(page.locator("#output")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#timing")).to_have_text("3 tokens")


@pytest.mark.parametrize("how", ["button", "key"])
def test_stop_frees_the_slots(page: Page, server: Server, how: str) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    page.locator("#text").fill(LONG_TEXT)
    expect(page.locator(".token").first).to_be_visible()
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
    page.locator("#text").fill("I am a cat.")
    _finish(page)
    page.locator("#alternatives").select_option("3")
    page.locator("#beam").select_option("2")
    expect(page.locator("#option-error")).to_have_text("must be at least 4 for so many alternatives")
    page.locator("#beam").select_option("")
    expect(page.locator("#option-error")).to_be_empty()
    _finish(page)
    page.locator("#text").fill("x" * 50_001)
    expect(page.locator("#text-error")).to_have_text("50001 characters, the limit is 50000")
    expect(page.locator("#text")).to_have_attribute("aria-invalid", "true")
    page.route("**/translate", lambda route: route.abort())
    page.locator("#text").fill("Yes.")
    expect(page.locator("#text-error")).to_be_empty()
    expect(page.locator("#output-error")).not_to_be_empty()
    # The browser itself notes each refused request.
    assert len(complaints) == 3
    complaints.clear()


def test_a_stream_that_breaks_off_is_said(page: Page) -> None:
    page.route("**/translate", lambda route: _answer(route, "id: 0\r\nevent: start\r\ndata: "))
    page.locator("#text").fill("Yes.")
    expect(page.locator("#output-error")).to_have_text("The connection broke off.")


def _answer(route: Route, body: str) -> None:
    route.fulfill(content_type="text/event-stream", body=body)


def test_alternatives_and_the_beam(page: Page) -> None:
    page.locator("#alternatives").select_option("3")
    page.locator("#text").fill("The old man is waiting for my friends.")
    _finish(page)
    assert page.locator("#others li").count() >= 2
    assert page.locator("#hypotheses .bar").count() == 1 + page.locator("#others li").count()
    page.locator("#alternatives").select_option("0")
    expect(page.locator("#others")).to_be_hidden()


def test_the_beam_is_seen_while_it_searches(page: Page) -> None:
    """Its steps before the first token is settled, too; and later those of the token that is chosen."""
    body = {"q": "The old man is waiting for my friends.", "source": "en", "target": "fr", "stream": True}
    options = {"beam_size": 4, "hypotheses": True, "attention": True, "top_candidates": 5}
    events = httpx.post(f"{page.url}translate", json=body | options).content.split(b"\r\n\r\n")
    first = next(number for number, event in enumerate(events) if b"event: token" in event)
    assert first > 2, "a beam that settles at once shows nothing here"
    halves = [b"\r\n\r\n".join(half).decode() for half in ([*events[:first], b""], events[first:])]
    page.evaluate(_HELD % json.dumps(halves))
    page.locator("#beam").select_option("4")
    page.locator("#text").fill("The old man is waiting for my friends.")
    live = page.locator("#live .label")
    expect(page.locator("#beam-step")).to_have_text(str(first - 1))
    told = json.loads(events[first - 1].split(b"data: ")[1])["hypotheses"]
    written = [json.loads(event.split(b"data: ")[1])["text"] for event in events if b"event: token" in event]
    expect(live).to_have_text([each["text"].strip() for each in told])
    expect(page.locator("#output")).to_be_empty()
    page.evaluate("goOn()")
    _finish(page)
    page.locator("#tokens [role=option]").nth(1).click()
    expect(page.locator("#beam-step")).to_have_text("2")
    expect(page.locator("#live .chosen-one .label")).to_have_text("".join(written[:2]).strip())
    page.locator("#beam").select_option("1")
    expect(page.locator("#beam-view")).to_be_hidden()


_HELD = """
    (() => {
        const [now, later] = %s;
        const fetched = window.fetch;
        window.fetch = async () => new Response(new ReadableStream({
            start(controller) {
                const send = (text) => controller.enqueue(new TextEncoder().encode(text));
                send(now);
                window.goOn = () => {
                    window.fetch = fetched;
                    send(later);
                    controller.close();
                };
            },
        }), { headers: { "Content-Type": "text/event-stream" } });
    })()
"""
"""An answer whose second half comes when the page is told to go on."""


def test_inside_the_model(page: Page) -> None:
    """Words whose translation is known: what is shown of a token is its own."""
    page.locator("#text").fill("😀\nThe old dog likes Canada.")
    _finish(page)
    token = page.locator("#tokens [role=option]", has_text="chien")
    token.click()
    expect(page.locator("#backdrop mark")).to_have_text("dog")
    expect(page.locator("#output .current")).to_have_text("chien")
    strongest = page.locator("#looked .weighted.strong, #looked .weighted.middle")
    expect(strongest).to_have_text("dog")
    expect(page.locator("#candidates .chosen-one .label")).to_have_text("·chien")
    assert page.locator("#candidates li").count() == 5
    expect(page.locator("#seen")).to_have_text("⟨start⟩ Le vieux")
    expect(page.locator("#heatmap .selected th")).to_have_text("·chien")
    columns = page.locator("#heatmap thead th")
    assert columns.all_inner_texts()[-1] == "end"
    expect(page.locator("#heatmap tbody tr")).to_have_count(page.locator("#tokens [role=option]").count())
    expect(page.locator("#mask rect.now")).to_have_attribute("width", "3")


def test_tokens_are_chosen_by_keys_and_by_hovering(page: Page) -> None:
    page.locator("#text").fill("The old dog likes Canada.")
    _finish(page)
    options = page.locator("#tokens [role=option]")
    expect(options.first).to_have_attribute("aria-selected", "true")
    options.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(options.nth(2)).to_be_focused()
    expect(options.nth(2)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("End")
    expect(options.last).to_be_focused()
    expect(options.last).to_have_text("end")
    page.locator("#output .token", has_text="chien").hover()
    expect(page.locator("#backdrop mark")).to_have_text("dog")
    page.get_by_role("button", name="Replay").click()
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="Pause").click()


def test_nobody_pays_for_a_view_that_is_closed(page: Page) -> None:
    page.locator("summary").click()
    with page.expect_request("**/translate") as sent:
        page.locator("#text").fill("Yes.")
    assert not {"attention", "top_candidates", "alignment", "hypotheses"} & set(_body(sent.value))
    expect(page.locator("#output")).to_have_text("Oui.")
    with page.expect_request("**/translate") as sent:
        page.locator("summary").click()
    assert _body(sent.value)["attention"] is True


def test_languages_swap_with_their_texts(context: BrowserContext, complaints: list[str]) -> None:
    """Where a server translates both ways; the embedded model does not."""
    known = [{"code": code, "name": code.upper(), "targets": [other]} for code, other in (("en", "fr"), ("fr", "en"))]
    page = _listened(context.new_page(), complaints)
    page.route("**/languages", lambda route: route.fulfill(json=known))
    page.goto("/")
    page.locator("#text").fill("I am a cat.")
    _finish(page)
    with page.expect_request("**/translate") as sent:
        page.get_by_role("button", name="Swap languages").click()
    body = _body(sent.value)
    assert (body["q"], body["source"], body["target"]) == ("Je suis un chat.", "fr", "en")
    expect(page.locator("#language-error")).to_have_text("fr is not supported; available: auto, en")
    complaints.clear()


def test_a_server_of_one_direction_does_not_swap(page: Page) -> None:
    expect(page.get_by_role("button", name="Swap languages")).to_be_disabled()


def test_copy(context: BrowserContext, page: Page) -> None:
    expect(page.get_by_role("button", name="Copy")).to_be_disabled()
    page.locator("#text").fill("I am a cat.")
    _finish(page)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "Je suis un chat."


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits(browser: Browser, server: Server, viewport: ViewportSize, scheme: str, complaints: list[str]) -> None:
    """No scrolling sideways, however much there is to show; and dark where people want it dark."""
    assert scheme in ("light", "dark")
    dark = scheme == "dark"
    context = browser.new_context(base_url=server.url, viewport=viewport, color_scheme="dark" if dark else "light")
    page = _listened(context.new_page(), complaints)
    page.goto("/")
    assert _width(page) == viewport["width"]
    page.locator("#alternatives").select_option("3")
    page.locator("#text").fill("The old man is waiting for the house near the river. " * 3 + "x" * 60)
    _finish(page)
    assert _width(page) == viewport["width"]
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    red = int(background.removeprefix("rgb(").split(",")[0])
    assert (red < 64) is dark
    source, target = (page.locator(each).bounding_box() for each in ("#text", "#output"))
    assert source is not None
    assert target is not None
    beside = target["x"] >= source["x"] + source["width"]
    assert beside is (viewport is DESKTOP)
    context.close()
    assert not complaints


@pytest.mark.parametrize(("path", "sign"), [("/", "#from option"), ("/docs", ".opblock")])
def test_nothing_comes_from_elsewhere(
    context: BrowserContext, server: Server, path: str, sign: str, complaints: list[str]
) -> None:
    page = _listened(context.new_page(), complaints)
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


def test_a_server_that_is_not_ready_is_said(start_server: StartServer, browser: Browser) -> None:
    with start_server("--slots", "1", "--max-waiting", "0") as server:
        context = browser.new_context(base_url=server.url)
        pages = [context.new_page() for _ in range(2)]
        for page in pages:
            page.goto("/")
            expect(page.locator("#from")).to_have_value("en")
        pages[0].locator("#text").fill(LONG_TEXT)
        expect(pages[0].locator(".token").first).to_be_visible()
        pages[1].locator("#text").fill("Yes.")
        expect(pages[1].locator("#output-error")).not_to_be_empty()
        context.close()


def test_a_server_that_wants_a_key_is_given_one(
    browser: Browser, start_server: StartServer, tmp_path: Path, complaints: list[str]
) -> None:
    path = tmp_path / "keys.db"
    with closing(KeyFile(path, create=True)) as file:
        key = file.add("page", KeyLimits())
    with (
        start_server("--keys", str(path)) as server,
        browser.new_context(base_url=server.url, viewport=PHONE) as context,
    ):
        page = _listened(context.new_page(), complaints)
        page.goto("/")
        page.locator("#text").fill("I am a cat.")
        expect(page.locator("#key-error")).to_contain_text("this server wants an API key")
        page.get_by_label("API key").fill("wrong")
        expect(page.locator("#key-error")).to_have_text("Invalid API key")
        page.get_by_label("API key").fill(key)
        expect(page.locator("#output")).to_have_text("Je suis un chat.")
        expect(page.locator("#key-error")).to_be_empty()
        assert _width(page) == PHONE["width"]
        page.reload()
        expect(page.get_by_label("API key")).to_have_value(key)
        # Kept for this tab only, and not where a later visitor of the machine would find it.
        assert page.evaluate("localStorage.length") == 0
        assert not context.cookies()
    # What the server refuses, the browser writes down as well.
    assert all("status of 40" in complaint for complaint in complaints)


def test_a_server_that_knows_no_keys_asks_for_none(page: Page) -> None:
    expect(page.get_by_label("API key")).to_be_hidden()


def test_what_goes_by_way_of_another_language_says_so(
    browser: Browser, start_server: StartServer, tmp_path: Path
) -> None:
    """The inside is open, and there is no attention from end to end."""
    directory = tmp_path / "models"
    directory.mkdir()
    (directory / "en-fr").symlink_to(EMBEDDED_MODEL)
    relabel_embedded_model(directory / "fr-it", "fr-it")
    with start_server("--models", str(directory)) as server, closing(browser.new_page(base_url=server.url)) as page:
        page.goto("/")
        page.locator("#from").select_option("en")
        page.locator("#to").select_option("it")
        page.locator("#text").fill("The cat sat on the mat.")
        _finish(page)
        expect(page.locator("#detected")).to_have_text("by way of French")
        expect(page.locator("#output .token").first).to_be_visible()
