"""What is in texts and no language: URLs, e-mail addresses, placeholders, tags, emoji. Copied, not translated."""

from typing import Final

import regex

_PATTERNS: Final = {
    "URL": r"\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.|mailto:)"
    r"(?:[^\s<>()\"“”«»]|\([^\s<>()\"“”«»]*\))+(?<![.,:;!?…'’\]}])",
    "e-mail address": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}",
    "domain, with a path or not": r"(?<![\w@.-])(?:[a-z0-9-]{1,63}\.){1,8}(?:com|org|net|edu|gov|info|io|eu|de|fr|uk)\b"
    r"(?:/[^\s<>\"]*[\w/])?",
    "template": r"\$?\{\{?[^{}\n]{0,80}\}?\}|<%[^<>\n]{0,80}%>",
    "tag": r"</?[A-Za-z][\w:.-]{0,40}(?:\s[^<>\n]{0,200})?/?>",
    "printf": r"(?<![\w%])%(?:\([\w.]+\)|[0-9]+\$)?[-+#0]?[0-9]*(?:\.[0-9]+)?(?:[sdifuxgc]|l[du])\b",
    "variable": r"\$[A-Za-z_]\w*|(?<!\w)%[A-Z_]{2,}%|__[A-Z_]+__|\[[A-Z][A-Z0-9_]+\]",
    "code": r"`[^`\n]{1,200}`",
    "handle": r"(?<![\w/])@[A-Za-z_]\w+|(?<![\w/&])#[A-Za-z_]\w+",
    "emoji": r"(?:\p{Extended_Pictographic}|\p{Regional_Indicator})"
    r"[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}\u200d\ufe0f\u20e3]*",
}
# One by one: all in one expression would take six times as long.
_EXPRESSIONS: Final = [regex.compile(pattern) for pattern in _PATTERNS.values()]
_GAP: Final = regex.compile("[ \u00a0]*")


def find_verbatim(text: str) -> list[tuple[int, int]]:
    """From where up to where, in the order of the text.

    Neighbours are one: a model that reads several stand-ins in a row drops some.
    """
    found: list[tuple[int, int]] = []
    for start, end in sorted(match.span() for expression in _EXPRESSIONS for match in expression.finditer(text)):
        if found and (start <= found[-1][1] or _GAP.fullmatch(text, found[-1][1], start)):
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
