"""Parts of texts that are copied, not translated: URLs, placeholders, tags, emoji, rare symbols, other scripts."""

from collections.abc import Iterator, Sequence
from typing import Final

import regex

from service.text.segment import Term

_DOMAINS: Final = ("com", "org", "net", "edu", "gov", "info", "io", "eu", "de", "fr", "uk")
_PATTERNS: Final = {
    "URL": r"\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.|mailto:)"
    r"(?:[^\s<>()\"“”«»]|\([^\s<>()\"“”«»]*\))+(?<![.,:;!?…'’\]}])",
    "e-mail address": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}",
    "domain or path": rf"(?<![\w@.-])(?:[a-z0-9-]{{1,63}}\.){{1,8}}(?:{'|'.join(_DOMAINS)})\b"
    r"(?:/[^\s<>\"]*[\w/])?",
    "template": r"\$?\{\{?[^{}\n]{0,80}\}?\}|<%[^<>\n]{0,80}%>",
    "tag": r"</?[A-Za-z][\w:.-]{0,40}(?:\s[^<>\n]{0,200})?/?>",
    "printf": r"(?<![\w%])%(?:\([\w.]+\)|[0-9]+\$)?[-+#0]?[0-9]*(?:\.[0-9]+)?(?:[sdifuxgc]|l[du])\b",
    "variable": r"\$[A-Za-z_]\w*|(?<!\w)%[A-Z_]{2,}%|__[A-Z_]+__|\[[A-Z][A-Z0-9_]+\]",
    "code": r"`[^`\n]{1,200}`",
    "handle": r"(?<![\w/])@[A-Za-z_]\w+|(?<![\w/&])#[A-Za-z_]\w+",
    # A model that has seen few of them drops them or makes words of their bytes.
    "rare currency": r"(?![$€£])\p{Sc}",
    "fraction": r"(?:(?<!\d)\d{1,9}(?:[.,]\d{3}){0,4}[ \u00a0]?)?[\u00bc-\u00be\u2150-\u215e]",
    # With a number or a letter on each side: 3 × 4, x ≤ y.
    "mathematical sign": r"(?:(?<![\w.,])(?:\p{L}|\d{1,9}) ?)?(?![+<>=|~])\p{Sm}(?: ?(?:\p{L}|\d{1,9})(?![\w]))?",
    # A unit or a formula, m² and CO₂. More letters are a word, and the small number behind it is that of a note.
    "index or power": r"(?<!\w)[A-Za-z]{0,2}[\u00b2\u00b3\u00b9\u2070-\u209c]"
    r"[A-Za-z0-9\u00b2\u00b3\u00b9\u2070-\u209c]{0,8}(?!\w)",
    "emoji": r"(?:\p{Extended_Pictographic}|\p{Regional_Indicator})"
    r"[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}\u200d\ufe0f\u20e3]*",
}
_SIGNS: Final[dict[str, Sequence[str]]] = {
    "URL": ("://", "www.", "mailto:"),
    "e-mail address": ("@",),
    "domain or path": [f".{domain}" for domain in _DOMAINS],
    "template": ("{", "<%"),
    "tag": ("<",),
    "printf": ("%",),
    "variable": ("$", "%", "__", "["),
    "code": ("`",),
    "handle": ("@", "#"),
}
"""Strings of which each part of a kind has one; parts of the other kinds have a symbol."""
_SYMBOL: Final = regex.compile(
    r"[[\p{Sc}\p{Sm}\u00b2\u00b3\u00b9\u2070-\u209c\u00bc-\u00be\u2150-\u215e"
    r"\p{Extended_Pictographic}\p{Regional_Indicator}]--[\u0000-\u007f€£]]",
    regex.V1,
)
# Matched one by one: all in one expression take six times as long.
_EXPRESSIONS: Final = {name: regex.compile(pattern) for name, pattern in _PATTERNS.items()}
_GAP: Final = regex.compile("[ \u00a0]*")


def find_verbatim(
    text: str, foreign: regex.Pattern[str] | None = None, terms: Sequence[Term] = ()
) -> list[tuple[int, int]]:
    """Return the spans of all copied parts, in the order of the text; `foreign` finds letters of foreign scripts.

    Those in the `terms` of a glossary are not foreign: they have a translation. Neighbours are merged: a model that
    reads several placeholders in a row drops some.
    """
    found: list[tuple[int, int]] = []
    spans = [match.span() for name in _possible(text) for match in _EXPRESSIONS[name].finditer(text)]
    if foreign is not None and not text.isascii():
        spans += [match.span() for match in foreign.finditer(_without(text, terms))]
    for start, end in sorted(spans):
        if found and (start <= found[-1][1] or _GAP.fullmatch(text, found[-1][1], start)):
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _possible(text: str) -> Iterator[str]:
    """Yield the kinds of which the text may have a part; the search for a sign takes far less time than a match."""
    has_symbol = not text.isascii() and _SYMBOL.search(text) is not None
    for name in _PATTERNS:
        signs = _SIGNS.get(name)
        if has_symbol if signs is None else any(sign in text for sign in signs):
            yield name


def _without(text: str, terms: Sequence[Term]) -> str:
    """Return the text with characters that are no letters in the places of the terms."""
    characters = list(text)
    for term in terms:
        characters[term.start : term.end] = "\0" * (term.end - term.start)
    return "".join(characters)


def find_tags(text: str) -> list[regex.Match[str]]:
    """Return the tags in the order of the text, without those in a URL, in code or in another copied part."""
    others = sorted(
        match.span() for name in _possible(text) if name != "tag" for match in _EXPRESSIONS[name].finditer(text)
    )
    found: list[regex.Match[str]] = []
    covered = number = 0
    for tag in _EXPRESSIONS["tag"].finditer(text):
        while number < len(others) and others[number][0] < tag.start():
            covered = max(covered, others[number][1])
            number += 1
        if covered <= tag.start():
            found.append(tag)
    return found
