"""Does a translator survive text as people really type it? Cases by category, each judged by mechanical checks.

Knows the cases and how to judge a translation; nothing of models: `run` takes any function from sources to
translations. Passing says that a translation is not broken in the way its category is about, not that it is good.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from model.training.robustness_cases import Case, Cases, count, normalised

_QUOTE_MARKS: Final = '"“”„«»'
# One character each for what keyboards and typographers write differently.
_PLAIN: Final = str.maketrans({"œ": "oe", "…": "..."} | dict.fromkeys("’‘`´ʼ", "'") | dict.fromkeys("–—‑−", "-"))
# In French a currency may stand in the place of the decimal comma: 2 € 50, 2 euros 50.
_DECIMAL_MARK: Final = r"(?:[.,]| ?(?:€|\$|£|euros?|dollars?|livres?) ?)"
# Words, up to 40 characters of them, written three times in a row.
_RUNAWAY: Final = re.compile(r"(?<!\w)([^\W\d_].{0,40}?)(?:\W+\1){2,}(?!\w)")
# In characters, to the source; a short one may gain a few more: "Thanks" is "Merci beaucoup".
_MIN_LENGTH_RATIO: Final = 0.3
_MAX_LENGTH_RATIO: Final = 2.0
_LENGTH_SLACK: Final = 12


class _Text(NamedTuple):
    """A translation in the forms that checks look at."""

    exact: str
    """Only composed (NFC), and its spaces made plain."""
    plain: str
    """The text without differences that do not count; without accents, too, where capitals are required."""


def check(case: Case, translation: str) -> list[str]:
    """Return the problems of a translation, in words; none for one that passes."""
    text = _Text(normalised(translation), _plain(translation, case))
    if not text.exact:
        return ["is empty"]
    return [problem for find_problems in _CHECKS for problem in find_problems(case, text)]


def _plain(text: str, case: Case) -> str:
    text = re.sub("[“„«] ?| ?[”»]", '"', normalised(text).casefold().translate(_PLAIN))
    if case.upper:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return text


def _has(words: tuple[str, ...], case: Case, text: _Text) -> bool:
    return any(count(_plain(word, case), text.plain) for word in words)


def _contents(case: Case, text: _Text) -> Iterator[str]:
    for words in case.contains:
        if not _has(words, case, text):
            yield f"lacks {' or '.join(words)}"
    if case.equals is not None and text.plain.rstrip(" .!?") not in {_plain(choice, case) for choice in case.equals}:
        yield f"is not {' or '.join(case.equals)}"


def _verbatim(case: Case, text: _Text) -> Iterator[str]:
    for piece in case.verbatim:
        wanted, found = (count(normalised(piece), side) for side in (normalised(case.source), text.exact))
        if found != wanted:
            yield f"has {piece} {found} times, not {wanted}"


def _numbers(case: Case, text: _Text) -> Iterator[str]:
    for number in case.numbers:
        if not _number_pattern(number).search(text.plain):
            yield f"lacks the number {number}"


def _number_pattern(number: str) -> re.Pattern[str]:
    """Build a pattern of all ways to write an English number such as 1,234.56: 1 234,56 or 1.234,56 or 1234.56."""
    whole, _, decimals = number.replace(",", "").partition(".")
    head = len(whole) % 3
    groups = [whole[:head]] * bool(head) + [whole[i : i + 3] for i in range(head, len(whole), 3)]
    pattern = "[ .,']?".join(groups) + (_DECIMAL_MARK + decimals if decimals else "")
    return re.compile(rf"(?<!\d)(?<!\d[.,]){pattern}(?![.,]?\d)")


def _ends(case: Case, text: _Text) -> Iterator[str]:
    if case.ends_with is not None and not text.plain.endswith(case.ends_with):
        yield f"does not end with {' or '.join(case.ends_with)}"
    if case.not_ends_with is not None and text.plain.endswith(case.not_ends_with):
        yield f"ends with {' or '.join(case.not_ends_with)}"


def _capitals(case: Case, text: _Text) -> Iterator[str]:
    if case.upper and not text.exact.isupper():
        yield "is not all capitals"


def _quotes(case: Case, text: _Text) -> Iterator[str]:
    marks = sum(text.exact.count(mark) for mark in _QUOTE_MARKS)
    if case.quote_pairs is not None and marks not in {2 * pairs for pairs in case.quote_pairs}:
        yield f"has {marks} double quotation marks, not {' or '.join(str(2 * pairs) for pairs in case.quote_pairs)}"


def _length(case: Case, text: _Text) -> Iterator[str]:
    source = len(normalised(case.source))
    if len(text.exact) < _MIN_LENGTH_RATIO * source:
        yield f"is too short: {len(text.exact)} characters for {source}"
    if len(text.exact) > _MAX_LENGTH_RATIO * source + _LENGTH_SLACK:
        yield f"is too long: {len(text.exact)} characters for {source}"


def _repetition(case: Case, text: _Text) -> Iterator[str]:
    repeated = _RUNAWAY.search(text.plain)
    if repeated and not _RUNAWAY.search(_plain(case.source, case)):
        yield f"repeats {repeated[1]}"


_CHECKS: Final[tuple[Callable[[Case, _Text], Iterator[str]], ...]] = (
    _contents,
    _verbatim,
    _numbers,
    _ends,
    _capitals,
    _quotes,
    _length,
    _repetition,
)


class Failure(NamedTuple):
    """A translation that did not pass, and why."""

    case: Case
    translation: str
    problems: list[str]


@dataclass(frozen=True)
class CategoryResult:
    """The result of a translator in one category."""

    category: str
    total: int
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> int:
        return self.total - len(self.failures)


def run(cases: Cases, translate: Callable[[list[str]], list[str]]) -> list[CategoryResult]:
    """Translate every source in one call, and judge."""
    translations = iter(translate([case.source for members in cases.values() for case in members]))
    results = []
    for category, members in cases.items():
        judged = [(case, next(translations)) for case in members]
        failures = [Failure(case, text, problems) for case, text in judged if (problems := check(case, text))]
        results.append(CategoryResult(category, len(members), tuple(failures)))
    return results


def markdown(results: list[CategoryResult]) -> str:
    """Write a table: category, passed/total, and the first failure of each."""
    lines = ["| category | passed | a failure |", "|---|---|---|"]
    lines += [f"| {_cell(one.category)} | {one.passed}/{one.total} | {_example(one)} |" for one in results]
    passed, total = sum(one.passed for one in results), sum(one.total for one in results)
    return "\n".join([*lines, f"| **all** | **{passed}/{total}** |  |"])


def _example(result: CategoryResult) -> str:
    if not result.failures:
        return ""
    case, translation, problems = result.failures[0]
    return f"{_cell(case.source)} → {_cell(translation)} ({_cell('; '.join(problems))})"


def _cell(text: str) -> str:
    # Sources hold tags, placeholders and dollars, which markdown would take for its own.
    return re.sub(r"([\\`*_<>|\[\]$~])", r"\\\1", " ".join(text.split()))
