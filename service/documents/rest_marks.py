"""Inline marks of reStructuredText, which also stand in messages of documentation."""

from collections.abc import Iterator
from typing import Final

import regex

from service.documents.passages import plain_items
from service.documents.tagged import Close, Item, Object, Open

_MARK: Final = regex.compile(
    r"(?P<copied>``[^\n]{1,300}?``|(?::[\w.+-]{1,40}:)`[^`<>\n]{1,300}`|`[^`<>\n]{1,300}`:[\w.+-]{1,40}:"
    r"|(?<![\w|])\|[^\s|](?:[^|\n]{0,80}[^\s|])?\|_{0,2}|\[(?:\#?\w{1,40}|\*)\]_|::\s*\Z)"
    r"|(?P<open>(?::[\w.+-]{1,40}:)?`)(?P<text>[^`<>\n]{1,300}?)(?P<close>\s<[^<>`\n]{1,300}>`_{0,2}|`_{1,2})"
    r"|(?<![\w*])(?P<open>\*{1,2})(?![\s*])(?P<text>[^*\n]{1,300})(?<!\s)(?P<close>(?P=open))(?![\w*])"
)


def rest_items(text: str) -> list[Item]:
    """Split a text with marks of reStructuredText, or with tags of HTML, into items."""
    return list(_items(text)) if _MARK.search(text) else plain_items(text)


def _items(text: str) -> Iterator[Item]:
    done = 0
    for found in _MARK.finditer(text):
        yield from plain_items(text[done : found.start()])
        done = found.end()
        if found["copied"] is not None:
            yield Object([found["copied"]], is_word=not found["copied"].startswith("::"))
        else:
            yield Open(found["open"], is_link=found["open"].endswith("`"))
            yield from plain_items(found["text"])
            yield Close(found["close"])
    yield from plain_items(text[done:])
