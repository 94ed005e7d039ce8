"""The view inside the model: what it shows of a token is its own."""

import json
import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.system.browser import needs_chromium
from tests.system.page.pages import body_of, choose_beam_width, open_inside, wait_until_done

pytestmark = needs_chromium


@pytest.fixture
def page(page: Page) -> Page:
    """The page with its inside open."""
    open_inside(page)
    return page


def test_the_beam_is_seen_while_it_searches(page: Page) -> None:
    """The page shows steps before the first token is settled, and later the steps of the chosen token."""
    text = "Our neighbours are very kind."
    events = _beam_events(page, text)
    first = next(number for number, event in enumerate(events) if b"event: token" in event)
    assert first > 2, "a beam that settles at once shows nothing here"
    _hold(page, events, first)
    choose_beam_width(page, "4")
    page.locator("#text").fill(text)
    live = page.locator("#live .label")
    expect(page.locator("#beam-step")).to_have_text(str(first - 1))
    hypotheses = json.loads(events[first - 1].split(b"data: ")[1])["hypotheses"]
    written = [json.loads(event.split(b"data: ")[1])["text"] for event in events if b"event: token" in event]
    expect(live).to_have_text([each["text"].strip() for each in hypotheses])
    expect(page.locator("#output")).to_be_empty()
    page.evaluate("goOn()")
    wait_until_done(page)
    page.locator("#tokens [role=option]").nth(1).click()
    expect(page.locator("#beam-step")).to_have_text("2")
    expect(page.locator("#live .chosen-one .label")).to_have_text("".join(written[:2]).strip())
    choose_beam_width(page, "1")
    expect(page.locator("#beam-view")).to_be_hidden()


def test_a_sentence_is_chosen_before_its_first_token(page: Page) -> None:
    """The page shows the beam at once and its outcome later; the first token appears then."""
    text = "Yes.\nOur neighbours are very kind."
    events = _beam_events(page, text)
    first = next(at for at, event in enumerate(events) if b"event: token" in event and b'"segment":1' in event)
    assert b"event: hypotheses" in events[first - 1], "a beam that settles at once shows nothing here"
    _hold(page, events, first)
    choose_beam_width(page, "4")
    page.locator("#text").fill(text)
    page.locator("#sentence").select_option(label="1")
    page.locator("#sentence").select_option(label="2")
    hypotheses = json.loads(events[first - 1].split(b"data: ")[1])["hypotheses"]
    expect(page.locator("#live .label")).to_have_text([each["text"].strip() for each in hypotheses])
    page.evaluate("goOn()")
    wait_until_done(page)
    options = page.locator("#tokens [role=option]")
    assert options.count() > 5
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(page.locator("#heatmap tbody tr")).to_have_count(options.count())
    assert page.locator("#heatmap thead th").all_inner_texts()[-1] == "end"


def _beam_events(page: Page, text: str) -> list[bytes]:
    """Send the page's request with its view open; return the response event by event."""
    body = {
        "q": text,
        "source": "en",
        "target": "fr",
        "stream": True,
        "beam_size": 4,
        "alternatives": 3,
        "hypotheses": True,
    }
    details = {"attention": True, "self_attention": True, "top_candidates": 5}
    return httpx.post(f"{page.evaluate('location.origin')}/translate", json=body | details).content.split(b"\r\n\r\n")


def _hold(page: Page, events: list[bytes], at: int) -> None:
    """Let the page's next answer be these events, of which those from `at` on come when it is released."""
    halves = [b"\r\n\r\n".join(half).decode() for half in ([*events[:at], b""], events[at:])]
    page.evaluate(_HELD % json.dumps(halves))


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
"""An answer whose second half comes when the page releases it."""


def test_inside_the_model(page: Page) -> None:
    """Words whose translation is known: what is shown of a token is its own."""
    page.locator("#text").fill("😀\nThe old dog likes Canada.")
    wait_until_done(page)
    expect(page.locator("#backdrop mark, #output .current")).to_have_count(0)
    token = page.locator("#tokens [role=option]", has_text="chien")
    token.click()
    expect(page.locator("#backdrop mark")).to_have_text("dog")
    expect(page.locator("#output .current")).to_have_text("chien")
    strongest = page.locator("#looked .weighted.strong")
    expect(strongest).to_have_text("dog")
    expect(page.locator("#candidates .chosen-one .label")).to_have_text("·chien")
    assert page.locator("#candidates li").count() == 5
    expect(page.locator("#heatmap .selected th")).to_have_text("·chien")
    columns = page.locator("#heatmap thead th")
    assert columns.all_inner_texts()[-1] == "end"
    expect(page.locator("#heatmap tbody tr")).to_have_count(page.locator("#tokens [role=option]").count())


def test_marks_of_upper_case_are_explained(page: Page) -> None:
    """A word shares its label with its mark, the first word is chosen before its mark, and a note names the marks."""
    page.locator("#text").fill("The dog sleeps.")
    wait_until_done(page)
    columns = page.locator("#heatmap thead th")
    assert columns.all_inner_texts().count("The") == 1
    expect(columns.first).to_have_attribute("colspan", "2")
    cells = page.locator("#heatmap .selected td.weighted")
    expect(cells.nth(1)).to_have_attribute("title", re.compile(r"^The: "))
    expect(cells.nth(2)).to_have_attribute("title", re.compile(r"^dog: "))
    expect(page.locator("#tokens [role=option]").first).to_have_text("⇧")
    expect(page.locator("#tokens [aria-selected=true]")).to_have_text("·le")
    expect(page.locator("#triangle thead .case-mark")).to_have_attribute("title", "the next letter is upper case")
    expect(page.locator("#case-marks")).to_be_visible()
    page.locator("#text").fill("hello")
    expect(page.locator("#output")).to_have_text("bonjour")
    wait_until_done(page)
    expect(page.locator("#case-marks")).to_be_hidden()


def test_the_triangle_is_the_masked_self_attention(page: Page) -> None:
    """Each layer shows the stream's numbers: a token's row ends at its own position, and the rest is masked."""
    text = "The old dog likes Canada."
    body = {"q": text, "source": "en", "target": "fr", "stream": True, "self_attention": True}
    events = httpx.post(f"{page.evaluate('location.origin')}/translate", json=body).content.split(b"\r\n\r\n")
    tokens = [json.loads(event.split(b"data: ")[1]) for event in events if b"event: token" in event]
    page.locator("#text").fill(text)
    wait_until_done(page)
    triangle = page.get_by_role("region", name="Self-attention, scrollable")
    columns, rows = triangle.locator("thead th"), triangle.locator("tbody tr")
    expect(rows).to_have_count(len(tokens))
    expect(columns).to_have_count(len(tokens))
    assert columns.all_inner_texts()[:3] == ["start", "⇧", "·le"]
    expect(page.get_by_label("Decoder layer")).to_have_value("1")
    for layer in (1, 0):
        page.get_by_label("Decoder layer").select_option(str(layer))
        shown = rows.evaluate_all(_WEIGHTS)
        assert [len(each) for each in shown] == list(range(1, len(tokens) + 1))
        for own, token in zip(shown, tokens, strict=True):
            assert own == pytest.approx(token["self_attention"][layer], abs=1e-3)
    masked = rows.locator("td.masked:visible").evaluate_all("cells => cells.map((cell) => cell.colSpan)")
    assert masked == list(range(len(tokens) - 1, 0, -1))
    page.locator("#tokens [role=option]", has_text="chien").click()
    chosen = triangle.locator(".selected")
    expect(chosen.locator("th")).to_have_text("·chien")
    expect(page.locator("#read")).to_have_text("start ⇧Le vieux")
    expect(chosen.locator("td").nth(3)).to_have_attribute("title", re.compile(r"^·vieux: <?\d+(\.\d)? %$"))
    triangle.locator("th[scope=row]", has_text="Canada").click()
    expect(page.locator("#tokens [aria-selected=true]")).to_contain_text("canada")


_WEIGHTS = """
    rows => rows.map((row) =>
        [...row.querySelectorAll("td.weighted")].map((cell) => Number(cell.style.getPropertyValue("--weight"))))
"""


def test_tokens_are_chosen_by_keys_and_by_hovering(page: Page) -> None:
    page.locator("#text").fill("The old dog likes Canada.")
    wait_until_done(page)
    options = page.locator("#tokens [role=option]")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")  # the first one is a mark of upper case
    options.nth(1).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    expect(options.nth(2)).to_be_focused()
    expect(options.nth(2)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("End")
    expect(options.last).to_be_focused()
    expect(options.last).to_have_text("end")
    page.locator("#output .token", has_text="chien").hover()
    expect(page.locator("#backdrop mark")).to_have_text("dog")


def test_nobody_pays_for_a_view_that_is_closed(page: Page) -> None:
    open_inside(page)  # again, which closes it
    with page.expect_request("**/translate") as sent:
        page.locator("#text").fill("Yes.")
    extras = {"attention", "self_attention", "top_candidates", "alignment", "hypotheses"}
    assert not extras & set(body_of(sent.value))
    expect(page.locator("#output")).to_have_text("Oui.")
    page.reload()
    expect(page.locator("#output")).to_have_text("Oui.")
    expect(page.locator("#tokens")).to_be_hidden()
    with page.expect_request("**/translate") as sent:
        page.locator("#inside summary").click()
    assert body_of(sent.value)["attention"] is True
    assert body_of(sent.value)["self_attention"] is True
    page.reload()
    expect(page.locator("#tokens")).to_be_visible()
