"""Number formats of languages: 1,234.5 in English, 1 234,5 in French. The separators are those of CLDR, by Babel."""

from functools import cache
from typing import Final, NamedTuple

import regex
from babel import Locale, UnknownLocaleError
from babel.numbers import get_decimal_symbol, get_group_symbol

_ANYWHERE: Final = r"\s'’"
"""Separators of groups that are unambiguous in every language."""


class NumberValue(NamedTuple):
    """The value of a number: the digits before and after its decimal separator."""

    whole: str
    fraction: str


class NumberFormat:
    """The way that one language writes numbers."""

    def __init__(self, decimal: str, group: str) -> None:
        groups = f"[{_ANYWHERE}{regex.escape(group)}]"
        self._decimal, self._group = decimal, group
        # All groups of a number have the same separator. India writes 12,34,567.
        grouped = rf"[0-9]{{1,3}}(?P<group>{groups})[0-9]{{3}}(?:(?P=group)[0-9]{{3}})*"
        whole = rf"{grouped}|[0-9]{{1,2}}(?:,[0-9]{{2}})+,[0-9]{{3}}|[0-9]+"
        self._pattern = regex.compile(rf"(?P<whole>{whole})(?:{regex.escape(decimal)}(?P<fraction>[0-9]+))?")

    def value(self, number: str) -> NumberValue | None:
        """Return the value of a number in ASCII digits; None if the language does not write numbers so."""
        found = self._pattern.fullmatch(number)
        if found is None:
            return None
        return NumberValue(regex.sub("[^0-9]", "", found["whole"]), found["fraction"] or "")

    def write(self, value: NumberValue, *, grouped: bool) -> str:
        """Write a number, in groups of three digits if it is `grouped`."""
        whole = f"{int(value.whole):,}".replace(",", self._group) if grouped else value.whole
        return f"{whole}{self._decimal}{value.fraction}" if value.fraction else whole


@cache
def number_format(language: str) -> NumberFormat | None:
    """Return the number format of a language; None if it is unknown."""
    try:
        locale = Locale.parse(language, sep="-")
    except (UnknownLocaleError, ValueError):
        return None
    return NumberFormat(get_decimal_symbol(locale), get_group_symbol(locale))
