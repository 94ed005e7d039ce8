"""Anchors of headings in Markdown. Renderers derive them from the text, so a translated heading would lose its links.

No two renderers derive them alike, but all keep the letters and digits of the heading: by these alone a link finds it.
"""

import os.path
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

import regex

_LINK: Final = regex.compile(
    r"""(?:\]\(<?|\]:[ \t]*+<?|\bhref=\\?["'])(?P<path>[^\s()<>#"':]*+)#(?P<anchor>[^\s()<>"'\\]++)"""
)
_ADDRESS: Final = regex.compile(r"\]\([^()]*+\)|<[^<>]*+>")
_GIVEN: Final = regex.compile(r"""\b(?:id|name)=\\?["']?(?P<anchor>[^\s"'<>\\]++)|\{#(?P<anchor>[^\s{}]++)""")
"""An anchor that the author wrote."""
_HAS_BRACES: Final = regex.compile(r"\{\{[<%]|^#[^\n]*\{#", regex.M)
"""Hugo, which drops tags of HTML, and files whose headings have ids in braces."""
_INDEXES: Final = frozenset({"index", "_index", "readme"})
"""Names of files that are the page of their folder."""


def linked_anchors(text: str) -> frozenset[str]:
    """Return the anchors to which a text links in itself."""
    return frozenset(unquote(found["anchor"]) for found in _LINK.finditer(text) if not found["path"])


def anchors_by_page(pages: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Return, by `page_name`, the anchors to which other pages of a site link.

    `pages` are the paths of the pages in their folder, with `/`, and their texts.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path, text in pages:
        for link in _LINK.finditer(text):
            if link["path"]:
                name = page_name(os.path.normpath(PurePosixPath(path).parent / unquote(link["path"])))
                found[name].add(unquote(link["anchor"]))
    return {name: frozenset(anchors) for name, anchors in found.items()}


def page_name(path: str) -> str:
    """Return the name by which links of all renderers know a page: the file's without its ending, or its folder's."""
    page = PurePosixPath(path)
    return page.parent.name if page.stem.lower() in _INDEXES else page.stem


class HeadingAnchors:
    """The anchors that the headings of one text need, in their order."""

    def __init__(self, text: str, anchors: Iterable[str]) -> None:
        given = {found["anchor"] for found in _GIVEN.finditer(text)}
        self._wanted = {anchor_key(anchor): anchor for anchor in sorted({*anchors, *linked_anchors(text)} - given)}
        self._has_braces = _HAS_BRACES.search(text) is not None
        self._seen: Counter[str] = Counter()

    def affixes(self, heading: str) -> tuple[str, str]:
        """Return what is written before and behind the translation of a heading, so that links still lead there."""
        key = anchor_key(_ADDRESS.sub("", heading))
        repeated = self._seen[key]
        self._seen[key] += 1
        anchor = self._wanted.pop(f"{key}{repeated or ''}", "") if key and "{#" not in heading else ""
        if not anchor or regex.search(r"[\"<>&{}\s]", anchor):
            return "", ""
        return ("", f" {{#{anchor}}}") if self._has_braces else (f'<a id="{anchor}"></a>', "")


@lru_cache(maxsize=1 << 14)  # the cells of a notebook share their anchors
def anchor_key(text: str) -> str:
    """Return the letters and digits by which a link finds a heading."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", text.casefold())))
