"""PDF to Markdown: the reading order, and what is joined, divided, left out and told."""

from collections.abc import Sequence
from typing import Final

import pytest

from service.documents.pdf import reader
from service.documents.pdf.reader import read_pdf
from service.documents.pdf.writers import markdown_of
from service.errors import TooLong
from tests.service.documents.pdf.writing import Text, column, link_of, page_of, pdf_of, unicode_fonts

PROSE = (
    "The old man lived near the sea in a small",
    "house with a garden, and every morning he",
    "went down to the harbour to look at boats",
    "that had come in during the night. He had",
    "been a sailor himself when he was a young",
    "man, and he knew all of the captains well.",
)
TEXT: Final = " ".join(PROSE)
REST: Final = " ".join(PROSE[1:])
SCAN: Final = b"q 600 0 0 800 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \xff EI Q"


def _read(*pages: Sequence[Text] | bytes, fonts: Sequence[bytes] = ()) -> list[str]:
    """Return the blocks of a PDF as Markdown."""
    return markdown_of(read_pdf(pdf_of(*pages, fonts=fonts))[0]).strip().split("\n\n")


TABLE: Final = (("Name", "City", "Age"), ("Anna", "Rome", "31"), ("Ben", "Oslo", "27"), ("", "and Bergen", ""))
CELLS: Final = [
    Text(x, 200 + 11 * number, cell)
    for number, row in enumerate(TABLE)
    for x, cell in zip((50, 150, 250), row, strict=True)
    if cell
]
RULED: Final = [
    *column(55, 110, "Breakfast", "and lunch"),
    *column(205, 110, "are served from", "eight to two"),
    *column(55, 140, "Dinner"),
    *column(205, 140, "is served from", "six to nine"),
    *column(55, 170, "Tea", "and cake"),
    *column(205, 170, "all day long", "on the terrace"),
]
DIVIDED: Final = [
    *column(50, 100, *PROSE[:3]),
    *column(320, 100, *PROSE[3:]),
    Text(50, 160, "A heading", 10, "B"),
    *column(50, 180, *PROSE[:3]),
    *column(320, 180, *PROSE[3:]),
]
LIST: Final = [
    *column(50, 100, *PROSE),
    Text(60, 190, "•"),
    *column(75, 190, "an apple that was red and grew in a dark", "garden"),
    Text(60, 214, "•"),
    Text(75, 214, "a pear"),
    Text(80, 226, "1."),
    Text(95, 226, "green"),
    Text(80, 238, "2."),
    Text(95, 238, "yellow"),
]
HYPHENS: Final = (
    "It is a well-known fact that the transla-",
    "tion of documents needs a well-",
    "known model, and that users of Open-",
    "Office like it. They said so in 2001-",
    "2004, and OpenOffice is still here.",
)
CASES: Final[dict[str, tuple[list[str], *tuple[Sequence[Text] | bytes, ...]]]] = {
    "columns are read one after another": (
        [
            "# A title over both columns of the page",
            f"{TEXT} The columns of a page are meant to be read one after the other, not line by line {REST}",
        ],
        [
            Text(90, 60, "A title over both columns of the page", 18, "B"),
            *column(50, 100, *PROSE, "The columns of a page are meant to be"),
            *column(320, 100, "read one after the other, not line by line", *PROSE[1:]),
        ],
    ),
    "a line across the gutter divides columns": ([TEXT, "# A heading", TEXT], page_of(DIVIDED, "50 635 m 540 635 l S")),
    "hyphens at the ends of lines": (
        [
            "It is a well-known fact that the translation of documents needs a well-known model, and that users of "
            "OpenOffice like it. They said so in 2001-2004, and OpenOffice is still here."
        ],
        column(50, 100, *HYPHENS),
    ),
    "a numbered line in capitals is a heading": (
        ["# IV. THE BOATS", TEXT, "- NOT THIS ONE"],
        [Text(50, 60, "IV. THE BOATS"), *column(50, 100, *PROSE), Text(50, 200, "• NOT THIS ONE")],
    ),
    "lists with levels and wrapped items": (
        [TEXT, "- an apple that was red and grew in a dark garden\n- a pear\n    1. green\n    2. yellow"],
        LIST,
    ),
    "a table in text": (
        [
            TEXT,
            "| Name | City | Age |\n| --- | --- | --- |\n| Anna | Rome | 31 |\n| Ben | Oslo and Bergen | 27 |",
            TEXT,
        ],
        [*column(50, 100, *PROSE), *CELLS, *column(50, 280, *PROSE)],
    ),
    "ruled cells keep their lines together": (
        [
            "| Breakfast and lunch | are served from eight to two |\n| --- | --- |\n"
            "| Dinner | is served from six to nine |\n| Tea and cake | all day long on the terrace |"
        ],
        page_of(RULED, "".join(f"50 {y} m 400 {y} l S " for y in (702, 674, 644, 614))),
    ),
    "notes in a margin are no table": (
        ["Received in May, and printed in June only.", " ".join(PROSE[:2])],
        [*column(30, 100, "Received in May, and", "printed in June only.", size=7), *column(200, 100, *PROSE[:2])],
    ),
    "lines of signs are no markup": (
        ["A title", "\\=========", "Another"],
        column(50, 100, "A title", "=========", "Another", leading=30),
    ),
    "a sentence goes on after a note and on the next page": (
        [f"{TEXT} {' '.join(PROSE[:4])} {' '.join(PROSE[4:])}", "1 A note at the foot of the page."],
        [*column(50, 100, *PROSE, *PROSE[:4]), Text(50, 700, "1 A note at the foot of the page.", 7)],
        column(50, 100, *PROSE[4:]),
    ),
    "code keeps its lines": (
        [TEXT, "```\nif ready:\n    run()\n```"],
        [*column(50, 100, *PROSE), Text(50, 190, "if ready:", font="C"), Text(74, 202, "run()", font="C")],
    ),
    "a typewritten letter is no code": ([TEXT], column(50, 100, *PROSE, font="C")),
    "a turned page reads like any other": (
        [TEXT],
        [Text(100 + 12 * number, 700, line, 10, "F", "0 1 -1 0") for number, line in enumerate(PROSE)],
    ),
    "text in the margin comes last": (
        [TEXT, "# A stamp in the margin"],
        [Text(30, 600, "A stamp in the margin", 14, "F", "0 1 -1 0"), *column(50, 100, *PROSE)],
    ),
    "text drawn twice is read once": ([TEXT], [*column(50, 100, *PROSE), *column(50.4, 100, *PROSE)]),
    "text beside the page is not read": ([TEXT], [*column(50, 100, *PROSE), Text(700, 100, "not printed")]),
}


@pytest.mark.parametrize("case", CASES)
def test_blocks(case: str) -> None:
    expected, *pages = CASES[case]
    assert _read(*pages) == expected


def test_paragraphs_are_told_by_indents_gaps_and_short_lines() -> None:
    page = [
        *column(50, 100, *PROSE[:3], "that had come."),
        *column(50, 148, *PROSE[:2], "went down to it to look at all his boats."),
        Text(65, 184, "An indented line begins another paragraph"),
        *column(50, 196, *PROSE[3:]),
        *column(50, 250, *PROSE[:2]),
    ]
    assert [each.split()[0] for each in _read(page)] == ["The", "The", "An", "The"]


def test_headings_by_size_and_weight() -> None:
    page = [
        Text(50, 50, "The Report", 24, "B"),
        Text(50, 90, "First Part", 16),
        *column(50, 110, *PROSE),
        Text(50, 200, "A bold line", 10, "B"),
        *column(50, 215, *PROSE),
    ]
    found = _read(page)
    assert [found[0], found[1], found[3]] == ["# The Report", "## First Part", "### A bold line"]


def test_running_lines_are_left_out() -> None:
    def page(number: int, lines: Sequence[str]) -> list[Text]:
        edges = [Text(50, 30, "The History of Boats", 9), Text(300, 780, str(number), 9)]
        return [*edges, *column(50, 100, *lines)]

    first = [*page(1, PROSE), Text(50, 60, "The History of Boats", 20)]
    blocks, warnings = read_pdf(pdf_of(first, page(2, PROSE[2:]), page(3, PROSE[4:])))
    written = markdown_of(blocks)
    assert written.count("History of Boats") == 1
    assert not any(map(str.isdigit, written))
    assert warnings == ["headers and footers of pages are left out: The History of Boats"]


def test_a_running_line_that_stands_nowhere_else_is_kept_once() -> None:
    pages = [[Text(50, 30, "Keep dry", 9), *column(50, 100, *PROSE[number:])] for number in range(4)]
    assert markdown_of(read_pdf(pdf_of(*pages))[0]).count("Keep dry") == 1


def test_pages_of_one_text_are_not_running_lines() -> None:
    assert len(_read(*[[*column(50, 100, *PROSE)]] * 40)) == 40


def test_inline_styles_and_notes() -> None:
    page = [
        *column(50, 100, *PROSE),
        Text(50, 172, "Read the"),
        Text(93, 172, "red", 10, "B"),
        Text(113, 172, "book"),
        Text(136, 168, "2", 6),
        Text(142, 172, "now, or"),
        Text(178, 172, "never", 10, "I"),
        Text(206, 172, "again."),
    ]
    assert _read(page)[0].endswith("Read the **red** book<sup>2</sup> now, or *never* again.")


def test_an_initial_belongs_to_its_word() -> None:
    page = [
        Text(50, 120, PROSE[0][0], 32),
        *column(72, 100, PROSE[0][1:], PROSE[1]),
        *column(50, 124, *PROSE[2:], *PROSE),
    ]
    assert _read(page)[0].startswith("The old man lived near")


def test_accents_that_old_fonts_draw_over_letters() -> None:
    page = [
        *column(50, 100, *PROSE),
        Text(50, 172, "caf"),
        Text(65.5, 172, "\xb4"),
        Text(64.5, 172, "e"),
        Text(74, 172, "noir"),
    ]
    assert "café noir" in _read(page)[0]


def test_text_that_runs_from_right_to_left() -> None:
    """Arabic in the order in which it is drawn, with a glyph for two letters."""
    fonts = unicode_fonts("س/ل/ا/م/لا/ع")
    lines = "".join(
        f"BT /U 10 Tf 1 0 0 1 100 {y} Tm <{codes}> Tj ET "
        for y, codes in ((700, "0004000300020001"), (680, "000400050001"))
    )
    assert _read(lines.encode(), fonts=fonts)[0].split() == ["سلام", "سلام"]


def _unmapped() -> list[bytes]:
    return [each.partition(b"/ToUnicode")[0] + b">>" if b"ToUnicode" in each else each for each in unicode_fonts("a")]


DRAWN: Final = "BT /U 10 Tf 1 0 0 1 100 700 Tm <{}> Tj ET"


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        pytest.param(
            pdf_of(SCAN, column(50, 100, *PROSE), SCAN, SCAN),
            "pages without text, only pictures: 1, 3-4; recognise their text (OCR) first",
            id="pictures",
        ),
        pytest.param(
            pdf_of(DRAWN.format("00010002000300040005").encode(), fonts=_unmapped()),
            "pages whose fonts do not say which letters they show, so that some are wrong: 1",
            id="fonts without a map",
        ),
        pytest.param(
            pdf_of(DRAWN.format("00010001000100020001").encode(), fonts=unicode_fonts("a/\ufffd")),
            "pages whose fonts do not say which letters they show, so that some are wrong: 1",
            id="letters that a font does not know",
        ),
    ],
)
def test_what_cannot_be_read_is_named(content: bytes, warning: str) -> None:
    assert read_pdf(content)[1] == [warning]


def test_a_comment_over_columns_comes_last() -> None:
    comment = "<</Type/Annot/Subtype/FreeText/Rect[200 600 400 700]/Contents(What a nice house!)/DA(/F 9 Tf)>>"
    page = [*column(50, 100, *PROSE), *column(320, 100, *PROSE)]
    blocks, _ = read_pdf(pdf_of(page, annotations=comment))
    assert [each.text for each in blocks] == [TEXT] * 2 + ["What a nice house!"]


def test_a_limit_names_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MOST_LETTERS", 300)
    with pytest.raises(TooLong, match=r"^file: more than 300 letters before page 3$"):
        read_pdf(pdf_of(*[[*column(50, 100, *PROSE)]] * 2))


@pytest.mark.parametrize("address", ["https://example.org/a(b)", "mailto:ann@example.org"])
def test_links_keep_their_addresses(address: str) -> None:
    page = [*column(50, 100, *PROSE), Text(50, 172, "See the"), Text(88, 172, "page"), Text(114, 172, "now.")]
    escaped = address.replace("(", "\\(").replace(")", "\\)")
    blocks, _ = read_pdf(pdf_of(page, annotations=link_of("88 620 111 640", escaped)))
    assert ("page", address) in [(text.strip(), style.link) for text, style in blocks[0].runs]


def test_a_link_to_a_program_is_no_link() -> None:
    link = link_of("50 600 400 720", "javascript:alert\\(1\\)")
    blocks, _ = read_pdf(pdf_of([*column(50, 100, *PROSE)], annotations=link))
    assert not any(style.link for _, style in blocks[0].runs)
