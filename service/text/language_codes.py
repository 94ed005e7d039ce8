"""Codes of languages, however they are written: `EN`, `fr_FR`, `zh-TW`; and the scripts of languages, by Babel."""

import re
from collections.abc import Collection
from functools import cache
from typing import Final

import regex
from babel.core import get_global

# Codes of Argos Translate's own; LibreTranslate reports the common ones.
_ALIASES: Final = {"pb": "pt-br", "zt": "zh-hant"}
_SCRIPT_LENGTH: Final = 4
_THREE_LETTERS: Final = 3
_CODE: Final = re.compile("[a-z]{2,3}(-[a-z0-9]{1,8})*")
_SCRIPTS_OF_UNICODE: Final = {
    "hans": ("hani", "bopo"),
    "hant": ("hani", "bopo"),
    "hanb": ("hani", "bopo"),
    "jpan": ("hani", "hira", "kana"),
    "kore": ("hang", "hani"),
    "aran": ("arab",),
}
"""Unicode's scripts for each script of CLDR that has another name in Unicode, or consists of several."""
_SHARED_LETTERS: Final = r"\p{Script=Latn}\p{Script=Zyyy}\p{Script=Zinh}"
"""Letters in texts of all languages: Latin letters, and letters and accents that several scripts share."""


def match_code(code: str, known: Collection[str]) -> str | None:
    """Return the code of `known` that `code` means; None if there is no such language.

    A language matches its countries but not another script: `fr` matches `fr-CA`, but `zh-Hans` does not match
    `zh-TW`, where Chinese is written in `Hant`.
    """
    if code in known:
        return code
    requested = _normalize(code)
    if not _CODE.fullmatch(requested):
        return None
    by_code = {_normalize(each): each for each in known}
    language, script = requested.partition("-")[0], _script(requested)
    names = [requested, f"{language}-{script}", *([language] if _script(language) == script else [])]
    return next((by_code[name] for name in names if name in by_code), None)


@cache
def without_country(code: str) -> str:
    """Return the code of a language in lower case, with its script where that is not its usual one: `pt`, `zh-hant`."""
    requested = _normalize(code)
    language, script = requested.partition("-")[0], _script(requested)
    return language if script == _script(language) else f"{language}-{script}"


def scripts_of(code: str) -> set[str]:
    """Return the scripts of a language in all its countries; an empty set if they are unknown."""
    language, *rest = _normalize(code).split("-")
    written = {
        name: str(likely).split("_")[1].lower()
        for name, likely in get_global("likely_subtags").items()
        if name.partition("_")[0] == language
    }
    named = {part for part in rest if len(part) == _SCRIPT_LENGTH and part.isalpha()}
    return named | set(written.values())


def _normalize(code: str) -> str:
    lower = code.replace("_", "-").lower()
    language, dash, rest = lower.partition("-")
    # Three letters where two are usual: eng, fra. An alias to a language in one script or country does not count.
    short = str(get_global("language_aliases").get(language, "")) if len(language) == _THREE_LETTERS else ""
    return _ALIASES.get(lower, f"{short if short.isalpha() else language}{dash}{rest}")


def _script(code: str) -> str:
    """Return the script of a language, in its country if `code` names one; "" if unknown."""
    language, *rest = code.split("-")
    for part in rest:
        if len(part) == _SCRIPT_LENGTH and part.isalpha():
            return part
    likely = get_global("likely_subtags")
    names = [*(f"{language}_{part.upper()}" for part in rest), language]
    found = next((str(likely[name]) for name in names if name in likely), "")
    return next((part.lower() for part in found.split("_")[1:] if len(part) == _SCRIPT_LENGTH), "")


@cache
def foreign_letters(source: str, target: str) -> regex.Pattern[str] | None:
    """Return an expression for words in scripts of neither language; None if the scripts of a language are unknown."""
    codes = [scripts_of(source), scripts_of(target)]
    if not all(codes):
        return None
    scripts = sorted({part for script in set().union(*codes) for part in _SCRIPTS_OF_UNICODE.get(script, (script,))})
    known = "".join(rf"\p{{Script={script}}}" for script in scripts if script != "latn")
    foreign = rf"[[\p{{L}}\p{{M}}]--[{known}{_SHARED_LETTERS}]]"
    # Latin letters of the same word belong to it (kΩ), and so do joiners and letters that several scripts share.
    inside = rf"[[\p{{L}}\p{{M}}\u200c\u200d]--[{known}]]" if known else r"[\p{L}\p{M}\u200c\u200d]"
    word = rf"(?<!\p{{Latin}})\p{{Latin}}*+{foreign}{inside}*+"
    pattern = rf"{word}(?:[ \u00a0]?[,、，;；·・'’\-‐–][ \u00a0]?{word})*+"
    try:
        return regex.compile(pattern, regex.V1)
    except regex.error:
        return None  # Unicode does not know the script
