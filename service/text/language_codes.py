"""Which of the languages that there are somebody means: `EN`, `fr_FR`, `zh-TW`."""

import re
from collections.abc import Collection
from typing import Final

from babel.core import get_global

# Argos' own, which LibreTranslate tells by their common names.
_ALIASES: Final = {"pb": "pt-br", "zt": "zh-hant"}
_SCRIPT_LENGTH: Final = 4
_CODE: Final = re.compile("[a-z]{2,3}(-[a-z0-9]{1,8})*")


def matching(code: str, known: Collection[str]) -> str | None:
    """The one of `known` that `code` stands for, however it is written; None if there is none.

    A language serves for its countries, but not for another script: `fr` for `fr-CA`, but no `zh-Hans` for `zh-TW`,
    where Chinese is written in `Hant`.
    """
    if code in known:
        return code
    asked = _standard(code)
    if not _CODE.fullmatch(asked):
        return None
    by_code = {_standard(each): each for each in known}
    language, script = asked.partition("-")[0], _script(asked)
    names = [asked, f"{language}-{script}", *([language] if _script(language) == script else [])]
    return next((by_code[name] for name in names if name in by_code), None)


def _standard(code: str) -> str:
    lower = code.replace("_", "-").lower()
    return _ALIASES.get(lower, lower)


def _script(code: str) -> str:
    """In which the language is written, in that country if it is told; "" where that is not known."""
    language, *rest = code.split("-")
    for part in rest:
        if len(part) == _SCRIPT_LENGTH and part.isalpha():
            return part
    likely = get_global("likely_subtags")
    names = [*(f"{language}_{part.upper()}" for part in rest), language]
    found = next((str(likely[name]) for name in names if name in likely), "")
    return next((part.lower() for part in found.split("_")[1:] if len(part) == _SCRIPT_LENGTH), "")
