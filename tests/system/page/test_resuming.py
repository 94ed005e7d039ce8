"""The page while its connection breaks."""

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.system.browser import needs_chromium

pytestmark = needs_chromium

TEXT = "I see a cat. The old dog likes Canada."
WHOLE = "Je vois un chat. Le vieux chien aime le Canada."


def _beginning(route: Route, events: int) -> None:
    """Answer with so many events of the response, and half of the next one."""
    request = route.request
    answer = httpx.post(request.url, content=request.post_data_buffer, headers={"Content-Type": "application/json"})
    blocks = answer.content.split(b"\r\n\r\n")
    cut = b"\r\n\r\n".join([*blocks[:events], blocks[events][:20]])
    route.fulfill(content_type="text/event-stream", body=cut)


def test_a_stream_that_breaks_goes_on_with_its_last_event(page: Page, complaints: list[str]) -> None:
    """The server answers twice with a part, is gone once, and then sends the rest."""
    resumed: list[str | None] = []

    def answer(route: Route) -> None:
        resumed.append(route.request.headers.get("last-event-id"))
        match len(resumed):
            case 1:
                _beginning(route, 5)
            case 2:
                route.abort()
            case 3:
                route.fulfill(status=503, body="starting")
            case _:
                route.continue_()

    page.route("**/translate", answer)
    page.locator("#text").fill(TEXT)
    expect(page.locator("#state")).to_have_text("The server does not answer. Trying again …")
    expect(page.locator("#output")).to_have_text("Je vois un")
    expect(page.locator("#output")).to_have_text(WHOLE)
    expect(page.locator("#state")).to_be_empty()
    expect(page.locator("#output-error")).to_be_empty()
    assert resumed == [None, "4", "4", "4"]
    # A browser notes each failed request on its console.
    assert len(complaints) == 2
    complaints.clear()


def test_a_stream_that_waits_for_its_server_is_stopped(page: Page) -> None:
    page.route("**/translate", lambda route: _beginning(route, 2))
    page.locator("#text").fill(TEXT)
    expect(page.locator("#state")).to_contain_text("Trying again")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#state")).to_have_text("Stopped.")


@pytest.mark.parametrize("status", [200, 503])
def test_what_was_stopped_does_not_wait_for_its_server(page: Page, status: int) -> None:
    """The whole response may have come before the stop, which then breaks nothing."""
    script = """async (status) => {
        const { events } = await import("./web/server.js");
        const controller = new AbortController(), waits = [];
        const send = async () => {
            if (controller.signal.aborted) throw "sent again";
            controller.abort("stopped");
            return new Response("id: 0\\nevent: start\\ndata: {}\\n\\n", { status });
        };
        const onWait = (reason) => waits.push(reason);
        try {
            for await (const event of events(send, { signal: controller.signal, onWait }));
        } catch (error) {
            return [error, ...waits];
        }
    }"""
    assert page.evaluate(script, status) == ["stopped"]


@pytest.mark.parametrize("body", ["id: 0\r\nevent: start\r\ndata: ", ""])
def test_a_stream_without_an_event_is_begun_again(page: Page, body: str) -> None:
    page.route("**/translate", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    page.locator("#text").fill("Yes.")
    expect(page.locator("#state")).to_contain_text("Trying again")
    page.unroute("**/translate")
    expect(page.locator("#output")).to_have_text("Oui.")
