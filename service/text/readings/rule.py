"""Rules: a pattern in a sentence, and the text that a model reads for it."""

import re
from collections.abc import Callable
from typing import NamedTuple


class Rule(NamedTuple):
    """A pattern, and a function that returns what is read for a match of it; None if that is read as it stands."""

    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str | None]
    has_digits: bool = True
    """True if all matches have a digit: most sentences have none."""


def final_stop(match: re.Match[str]) -> str:
    """Return the full stop of a sentence that ends with that of an abbreviation."""
    is_whole = match[0] == match.string
    is_last = match[0].endswith(".") and not re.search(r"^[?!,;:)]|\w", match.string[match.end() :])
    return "." if is_last and not is_whole else ""


def words_rule(words: dict[str, str]) -> Rule:
    """Return the rule that reads a word or abbreviation as another; those with capitals are equal to nothing else."""
    longest_first = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w@#$/.'’&-])(?:{longest_first})(?![\w@/'’&-]|\.\w)")
    return Rule(pattern, lambda match: words[match[0]] + final_stop(match), has_digits=False)
