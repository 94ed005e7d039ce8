"""PDF to blocks of text, within limits."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from pypdfium2 import PdfDocument

from service.documents.pdf.blocks import Block, blocks_of
from service.documents.pdf.columns import lines_in_order
from service.documents.pdf.pages import Page, open_pdf, read_page
from service.documents.pdf.running import remove_running_lines
from service.errors import InvalidRequest, TooLong

_MOST_PAGES: Final = 2_000
_MOST_LETTERS: Final = 1_000_000
_HARDLY_ANY: Final = 30
"""Letters on a page that is a picture, such as its number."""
_UNMAPPED: Final = 0.05
"""The part of a page's letters that its fonts may leave to guesses."""


def read_pdf(data: bytes) -> tuple[list[Block], list[str]]:
    """Return the text of a PDF, and warnings about what is missing. Raises `InvalidRequest` and `TooLong`."""
    with open_pdf(data) as document:
        if (count := len(document)) > _MOST_PAGES:
            raise TooLong("file", f"{count} pages, the limit is {_MOST_PAGES}")
        pages = list(_pages(document, count))
    if not any(page.letters for page in pages):
        has_pictures = any(page.has_picture for page in pages)
        problem = "the PDF has no text, only pictures; recognise its text (OCR) first"
        raise InvalidRequest("file", problem if has_pictures else "the PDF has no text")
    warnings = _warnings(pages)
    if gone := remove_running_lines(pages):
        warnings.append("headers and footers of pages are left out: " + "; ".join(gone[:5]))
    columns = itertools.count()
    directions = (each for page in pages for each in page.directions if each[0])
    lines = [line for fragments, rules in directions for line in lines_in_order(fragments, rules, columns)]
    return blocks_of(lines), warnings


def _pages(document: PdfDocument, count: int) -> Iterator[Page]:
    letters = 0
    for index in range(count):
        page = read_page(document, index)
        letters += page.letters
        if letters > _MOST_LETTERS:
            raise TooLong("file", f"more than {_MOST_LETTERS} letters before page {index + 2}")
        yield page


def _warnings(pages: Sequence[Page]) -> list[str]:
    warnings = []
    if scans := [page.number for page in pages if page.letters < _HARDLY_ANY and page.has_picture]:
        warnings.append(f"pages without text, only pictures: {_ranges(scans)}; recognise their text (OCR) first")
    if unmapped := [page.number for page in pages if page.unmapped > _UNMAPPED * page.letters]:
        warnings.append(
            f"pages whose fonts do not say which letters they show, so that some are wrong: {_ranges(unmapped)}"
        )
    return warnings


def _ranges(numbers: Sequence[int]) -> str:
    """Write page numbers: `1-3, 7`."""
    # Numbers that follow each other are as far from their places.
    groups = itertools.groupby(enumerate(numbers), lambda placed: placed[1] - placed[0])
    ranges = ([number for _, number in group] for _, group in groups)
    return ", ".join(f"{each[0]}-{each[-1]}" if len(each) > 1 else str(each[0]) for each in ranges)
