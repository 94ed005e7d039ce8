"""The known language that a code means, however it is written: `EN`, `fr_FR`, `zh-TW`."""

import re
from collections.abc import Collection
from typing import Final

from babel.core import get_global

# Codes of Argos Translate's own; LibreTranslate reports the common ones.
_ALIASES: Final = {"pb": "pt-br", "zt": "zh-hant"}
_SCRIPT_LENGTH: Final = 4
_THREE_LETTERS: Final = 3
_CODE: Final = re.compile("[a-z]{2,3}(-[a-z0-9]{1,8})*")


def match_code(code: str, known: Collection[str]) -> str | None:
    """Return the one of `known` that `code` means, or None.

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


def scripts_of(code: str) -> set[str]:
    """Return the scripts that a language is written in, in any of its countries; none if they are unknown."""
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
    # Three letters where two are usual: eng, fra. Aliases to a language in a certain script or country are none.
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
