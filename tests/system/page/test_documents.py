"""Documents on the page: chosen or dropped, followed, downloaded or cancelled."""

from contextlib import closing
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.system.browser import needs_chromium
from tests.system.conftest import Server

pytestmark = needs_chromium

_DROP = """content => {
    const data = new DataTransfer();
    data.items.add(new File([content], "words.md"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def test_a_chosen_and_a_dropped_document_are_translated(page: Page, tmp_path: Path) -> None:
    document = tmp_path / "words.md"
    document.write_text("# I see a cat.\n")
    page.get_by_label("Translate a document").set_input_files(document)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "words.fr.md"
    assert Path(download.value.path()).read_text() == "# Je vois un chat.\n"
    expect(page.locator("#document-state")).to_be_hidden()
    page.evaluate(_DROP, "# I see a cat.\n")
    expect(page.locator("#document-words")).to_have_text("texts translated: 1")
    expect(page.locator("#document-name")).to_have_text("words.md")
    expect(page.locator("#document-progress")).to_have_js_property("value", 1)
    expect(page.get_by_role("button", name="Download")).to_be_visible()


def test_the_report_is_in_the_page_s_language(browser: Browser, server: Server) -> None:
    with closing(browser.new_context(base_url=server.url, locale="fr-FR")) as context:
        page = context.new_page()
        page.goto("/")
        expect(page.locator("#document")).to_be_visible()
        page.evaluate(_DROP, "# I see a cat.\n\nYes.\n\nParis\n")
        expect(page.locator("#document-words")).to_have_text(
            "textes traduits : 2; identiques dans les deux langues : 1"
        )


def test_a_document_is_cancelled(page: Page) -> None:
    page.evaluate(_DROP, "".join(f"I see {number} cats, and the house is red.\n\n" for number in range(3_000)))
    expect(page.locator("#document-words")).to_contain_text("%")
    with page.expect_response("**/documents/*") as deleted:
        page.get_by_role("button", name="Cancel").click()
    assert deleted.value.status == 204
    expect(page.locator("#document-state")).to_be_hidden()
    # Also while it is sent.
    page.route("**/documents", lambda _: None)  # it never arrives
    page.evaluate(_DROP, "I see a cat.")
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#document-state")).to_be_hidden()
    expect(page.locator("#document-error")).to_be_empty()


def test_a_refusal_is_shown(page: Page, complaints: list[str], tmp_path: Path) -> None:
    document = tmp_path / "words.pdf"
    document.write_text("%PDF")
    page.get_by_label("Translate a document").set_input_files(document)
    expect(page.locator("#document-error")).to_contain_text("the PDF is broken")
    # A browser notes each refused request on its console.
    assert complaints.pop().endswith("400 (Bad Request)")
