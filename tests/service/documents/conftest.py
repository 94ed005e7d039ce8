"""Documents to test with, and a translation that needs no model."""

from collections.abc import Callable
from pathlib import Path

import pytest
import regex

from service.documents.document import open_document
from service.documents.limits import DocumentLimits
from service.documents.paragraph import ReadOptions, advance
from service.text.markup.tokenizer import TokenKind, tokenize

FILES = Path(__file__).parent / "files"
"""Documents that LibreOffice 7.4 wrote."""
LIMITS = DocumentLimits()

Rewrite = Callable[..., bytes]


def shout(html: str) -> str:
    """Translate HTML into capitals; tags and references stay."""
    return "".join(
        regex.sub(r"(&[#\w]+;)|(\w+)", lambda found: found[1] or found[2].upper(), token.raw)
        if token.kind is TokenKind.TEXT
        else token.raw
        for token in tokenize(html)
    )


def sides(marked: str, expected: str = "") -> tuple[str, str]:
    """Return a document, and what `shout` makes of it: «text» is in capitals and on one line."""
    loud = regex.sub("«([^»]*)»", lambda found: regex.sub(r"\s*\n[ \t>]*", " ", found[1]).upper(), marked)
    return regex.sub("[«»]", "", marked), expected or loud


def same(html: str) -> str:
    return html


class Noting:
    """A translation that notes what it is asked for."""

    def __init__(self, translate: Callable[[str], str] = same) -> None:
        self._translate = translate
        self.seen: list[str] = []

    def __call__(self, html: str) -> str:
        self.seen.append(html)
        return self._translate(html)


def translated_in(name: str, text: str, rewrite: Rewrite) -> list[str]:
    """Return what is translated of a text; without a change every byte has to stay."""
    noting = Noting()
    assert rewrite(name, text, noting).decode() == text
    return noting.seen


@pytest.fixture
def rewrite(tmp_path: Path) -> Rewrite:
    def write(
        name: str,
        content: bytes | str,
        translate: Callable[[str], str] = shout,
        columns: tuple[str, ...] = (),
        limits: DocumentLimits = LIMITS,
        output_format: str = "",
    ) -> bytes:
        # Without a target language a document keeps the one that it declares.
        target = "" if translate is same else "fr"
        path, output = tmp_path / f"source-{name}", tmp_path / f"output-{name}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        options = ReadOptions(target=target, columns=columns, output_format=output_format)
        document = open_document(path, name, options, limits)
        document.count()
        rewriting, translations = document.rewrite(output), None
        while (batch := advance(rewriting, translations)) is not None:
            translations = [translate(text) for text in batch.texts]
        return output.read_bytes()

    return write
