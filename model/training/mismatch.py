"""Signs that a pair is not worth learning: its sides do not say the same, or it is no text.

The rules were chosen by reading samples of the embedded model's corpora. Rules that dropped mostly good pairs (balanced
brackets, share of letters, repeated letters) are not here. Knows nothing of files; knows French where a rule says so.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Final

_CLOSING: Final = "\"'’”»)]} \u00a0\u202f*_"
_NUMBER: Final = re.compile(r"\d+(?:[ .,\u00a0\u202f'’]\d{3})*(?:[.,]\d+)?")
_TIME: Final = re.compile(r"\d\s?h\b|[ap]\.?m\.?\b")
_MARKUP: Final = re.compile(
    r"<[^<>]*>|&[a-z]+;|\{\{|\}\}|\[\[|\]\]|~~|\\|`|\*\*|::|\]\(|\b[BIC]<|\$\{|==|^[#*|]|^\s*[-•]\s"
)
_PLACEHOLDER: Final = re.compile(r"%(?:\d+\$)?[-+0]?\d*(?:\.\d+)?[sdiufxc](?![a-zé])|%\d(?!\d)|\{\w*\}|\$[a-z]\w+")
_HOLE: Final = re.compile(r"\(\s*\)|\[\s*\]|«\s*»|“\s*”|\s[.,](?:\s|$)|(?<!\.)\.{4}$")
_BROKEN: Final = re.compile("\ufffd|Ã[©¨ª«§´]|â€|[\x00-\x08\x0e-\x1f\x7f-\x9f]|[\ue000-\uf8ff]")
_QUESTION_MARK_IN_WORD: Final = re.compile(r"[a-zà-ÿ]\?[a-zà-ÿ]")
_LOST_APOSTROPHE: Final = re.compile(r"(?<![\w'’.%-])(?:[dljmtsn]|[Qq]u) (?=[aeiouhéèêàâîôû][a-zéèêàâîôûùç]{2})")
_LONG_WORD: Final = re.compile(r"\b[a-zà-ÿ]{4,}\b")
_ENDS: Final = {mark: kind for kind, marks in (("stop", ".!…"), ("colon", ":"), ("pause", ";,")) for mark in marks}


def find_mismatch(source: str, target: str) -> str:
    """Return the first sign of a bad pair, in a few words, for counting; "" for none."""
    return next((name for name, is_bad in _RULES.items() if is_bad(source, target)), "")


def _lengths(source: str, target: str) -> bool:
    """Return True if the lengths differ too much; short texts may differ more."""
    ratio = abs(math.log((len(target) + 15) / (len(source) + 15)))
    return ratio > 0.5 + 2.4 / math.sqrt(len(source) + len(target))


def _numbers(source: str, target: str) -> bool:
    """Numbers of two digits or more are the same, however they are written; small ones may be words."""
    if _TIME.search(source) or _TIME.search(target):
        return False
    sides = [{re.sub(r"\D", "", number) for number in _NUMBER.findall(side)} for side in (source, target)]
    lacking = [number for number in sides[0] ^ sides[1] if len(number) > 1]
    # A number that one side lacks may be written as a word there, but not if it is long.
    return any(len(number) > 3 for number in lacking) or (bool(lacking) and bool(sides[0]) and bool(sides[1]))


def _end(text: str) -> str:
    text = text.rstrip(_CLOSING)
    return _ENDS.get(text[-1:], "") if text else ""


def _placeholders(source: str, target: str) -> bool:
    return Counter(_PLACEHOLDER.findall(source)) != Counter(_PLACEHOLDER.findall(target))


def _in_either(pattern: re.Pattern[str]) -> Callable[[str, str], bool]:
    return lambda source, target: bool(pattern.search(source) or pattern.search(target))


def _nearly_copied(source: str, target: str) -> bool:
    words = _LONG_WORD.findall(target)
    return len(words) > 3 and sum(word in source for word in words) > 0.8 * len(words)


def _capitals(source: str, target: str) -> bool:
    """Only one of the sides is in capitals."""
    shares = []
    for side in (source, target):
        letters = [letter for letter in side if letter.isalpha()]
        if len(letters) < 8:
            return False
        shares.append(sum(map(str.isupper, letters)) / len(letters))
    return max(shares) > 0.9 and min(shares) < 0.5


def _lost_letters(source: str, target: str) -> bool:
    """Return True for a question mark in the place of an accent, and in French for a space in that of an apostrophe."""
    lost = _QUESTION_MARK_IN_WORD.search(target) and not _QUESTION_MARK_IN_WORD.search(source)
    return bool(lost or _LOST_APOSTROPHE.search(target))


_RULES: Final[dict[str, Callable[[str, str], bool]]] = {
    "lengths differ": _lengths,
    "numbers differ": _numbers,
    "question on one side": lambda source, target: ("?" in source) != ("?" in target),
    "ends differ": lambda source, target: "?" not in source and _end(source) != _end(target),
    "markup": _in_either(_MARKUP),
    "placeholders differ": _placeholders,
    "holes": _in_either(_HOLE),
    "nearly a copy": _nearly_copied,
    "capitals on one side": _capitals,
    "broken characters": _in_either(_BROKEN),
    "lost letters": _lost_letters,
}
