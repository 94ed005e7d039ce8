"""Letters of foreign scripts, which a model does not know. The scripts of languages are CLDR's, by Babel."""

from functools import cache
from typing import Final

import regex

from service.text.language_codes import scripts_of

_PARTS: Final = {
    "hans": ("hani", "bopo"),
    "hant": ("hani", "bopo"),
    "hanb": ("hani", "bopo"),
    "jpan": ("hani", "hira", "kana"),
    "kore": ("hang", "hani"),
    "aran": ("arab",),
}
"""The scripts of Unicode in each script of CLDR that consists of several, or has another name."""
_SHARED: Final = r"\p{Script=Latn}\p{Script=Zyyy}\p{Script=Zinh}"
"""Letters in texts of all languages: Latin ones, and those and the accents of no single script."""


@cache
def foreign_letters(source: str, target: str) -> regex.Pattern[str] | None:
    """Return an expression for words in scripts that neither language uses; None if those of a language are unknown."""
    codes = [scripts_of(source), scripts_of(target)]
    if not all(codes):
        return None
    scripts = sorted({part for script in set().union(*codes) for part in _PARTS.get(script, (script,))})
    known = "".join(rf"\p{{Script={script}}}" for script in scripts if script != "latn")
    foreign = rf"[[\p{{L}}\p{{M}}]--[{known}{_SHARED}]]"
    # Latin letters of the same word belong to it (kΩ), and so do joiners and letters of no single script.
    inside = rf"[[\p{{L}}\p{{M}}\u200c\u200d]--[{known}]]" if known else r"[\p{L}\p{M}\u200c\u200d]"
    word = rf"(?<!\p{{Latin}})\p{{Latin}}*+{foreign}{inside}*+"
    pattern = rf"{word}(?:[ \u00a0]?[,、，;；·・'’\-‐–][ \u00a0]?{word})*+"
    try:
        return regex.compile(pattern, regex.V1)
    except regex.error:
        return None  # Unicode does not know the script
