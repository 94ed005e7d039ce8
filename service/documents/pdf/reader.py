"""PDF to blocks of text, within limits."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.documents.pdf.blocks import Block, blocks_of
from service.documents.pdf.columns import lines_in_order
from service.documents.pdf.layout import Grid, Line
from service.documents.pdf.pages import Page, open_pdf, read_page
from service.documents.pdf.running import remove_running_lines
from service.errors import InvalidRequest, TooLong

_HARDLY_ANY: Final = 30
_UNMAPPED: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class PdfLimits:
    """The limits of a PDF."""

    max_pages: int = 2_000
    max_letters: int = 1_000_000
    seconds: float = 30.0
    """Of a processor."""


@dataclass(slots=True)
class PdfText:
    """The text of a PDF, and what a reader should know of what is missing."""

    blocks: list[Block]
    warnings: list[str]


def read_pdf(data: bytes, limits: PdfLimits | None = None) -> PdfText:
    """Read the text of a PDF. Raises `InvalidRequest` and `TooLong`."""
    limits = limits or PdfLimits()
    deadline = time.process_time() + limits.seconds
    with open_pdf(data) as document:
        if (count := len(document)) > limits.max_pages:
            raise TooLong("file", f"{count} pages, the limit is {limits.max_pages}")
        pages: list[Page] = []
        letters = 0
        for index in range(count):
            pages.append(read_page(document, index))
            letters += pages[-1].letters
            if letters > limits.max_letters:
                raise TooLong("file", f"more than {limits.max_letters} letters before page {index + 2}")
            if time.process_time() > deadline:
                raise TooLong(
                    "file", f"it takes more than {limits.seconds:.0f} seconds to read; page {index + 1} of {count}"
                )
    if not letters:
        has_pictures = any(page.has_picture for page in pages)
        problem = "the PDF has no text, only pictures; recognise its text (OCR) first"
        raise InvalidRequest("file", problem if has_pictures else "the PDF has no text")
    warnings = _warnings(pages)
    if gone := remove_running_lines(pages):
        warnings.append("headers and footers of pages are left out: " + "; ".join(gone[:5]))
    return PdfText(blocks_of(_lines(pages)), warnings)


def _lines(pages: Sequence[Page]) -> list[Line | Grid]:
    lines: list[Line | Grid] = []
    column = 0
    for page in pages:
        for fragments, rules in page.directions:
            last = column
            if not fragments:
                continue
            for each in lines_in_order(fragments, rules):
                if isinstance(each, Line):
                    each.column += column
                    last = max(last, each.column)
                lines.append(each)
            column = last + 1
    return lines


def _warnings(pages: Sequence[Page]) -> list[str]:
    warnings = []
    if scans := [page.number for page in pages if page.letters < _HARDLY_ANY and page.has_picture]:
        warnings.append(f"pages without text, only pictures: {_ranges(scans)}; recognise their text (OCR) first")
    if unmapped := [page.number for page in pages if page.unknown or page.unmapped > _UNMAPPED * page.letters]:
        warnings.append(
            f"pages whose fonts do not say which letters they show, so that some are wrong: {_ranges(unmapped)}"
        )
    return warnings


def _ranges(numbers: Sequence[int]) -> str:
    """Write page numbers: `1-3, 7`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
