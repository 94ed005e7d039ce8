"""Does a translator survive text as people really type it? Cases by category, each judged by mechanical checks.

Knows the cases and how to judge a translation; nothing of models: `run` takes any function from sources to
translations. Passing says that a translation is not broken in the way its category is about, not that it is good.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError, model_validator

from model.checkpoint_config import Direction

CASES: Final = Path(__file__).parent / "cases"

_QUOTE_MARKS: Final = '"“”„«»'
# One character each for what keyboards and typographers write differently.
_PLAIN: Final = str.maketrans({"œ": "oe", "…": "..."} | dict.fromkeys("’‘`´ʼ", "'") | dict.fromkeys("–—‑−", "-"))
# In French a currency may stand in the place of the decimal comma: 2 € 50, 2 euros 50.
_DECIMAL_MARK: Final = r"(?:[.,]| ?(?:€|\$|£|euros?|dollars?|livres?) ?)"
_ENGLISH_NUMBER: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
# Words, up to 40 characters of them, said three times in a row.
_RUNAWAY: Final = re.compile(r"(?<!\w)([^\W\d_].{0,40}?)(?:\W+\1){2,}(?!\w)")
# In characters, to the source; a short one may gain a few more: "Thanks" is "Merci beaucoup".
_MIN_LENGTH_RATIO: Final = 0.3
_MAX_LENGTH_RATIO: Final = 2.0
_LENGTH_SLACK: Final = 12


class CaseError(ValueError):
    """A file of cases is not what it should be; names the file and every wrong case."""


def _split(value: object) -> object:
    return tuple(choice.strip() for choice in value.split("|")) if isinstance(value, str) else value


Piece = Annotated[str, Field(min_length=1)]
Verbatim = Annotated[str, Field(pattern=r"^\S(.*[^\s*])?$")]
Word = Annotated[str, Field(pattern=r"^[^*]+\*?$", description="a whole word, or with a final * its beginning")]
Words = Annotated[tuple[Word, ...], BeforeValidator(_split), Field(min_length=1, description='"a|b": either will do')]
Pieces = Annotated[tuple[Piece, ...], BeforeValidator(_split), Field(min_length=1, description='"a|b": either will do')]


class Case(BaseModel):
    """A source and what any good translation of it has.

    Unless said otherwise, case, kinds of space, of apostrophe, of dash and of double quotation mark do not count.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(pattern=r"\S")
    contains: tuple[Words, ...] = Field(default=(), description="each of these is in the translation")
    verbatim: tuple[Verbatim, ...] = Field(default=(), description="in it exactly, as often as in the source")
    numbers: tuple[Piece, ...] = Field(default=(), description="as in the source: in it, written in any usual way")
    equals: Pieces | None = Field(default=None, description="it is one of these, final punctuation aside")
    ends_with: Pieces | None = None
    not_ends_with: Pieces | None = None
    upper: StrictBool = Field(default=False, description="all capitals, with or without their accents")
    quote_pairs: tuple[int, ...] | None = Field(default=None, description="accepted numbers of quoted passages")
    example: str | None = Field(default=None, description="a translation that passes, to show that one can")

    @model_validator(mode="after")
    def _is_a_test(self) -> Self:
        if not (self.contains or self.equals):
            # The other checks may pass on a copy of the source, or on any sentence.
            raise ValueError("give contains or equals: what the translation says")
        for number in self.numbers:
            if not _ENGLISH_NUMBER.fullmatch(number):
                raise ValueError(f"{number} is not a number such as 1,234.56")
        for piece in (*self.verbatim, *self.numbers):
            if not _count(_exact(piece), _exact(self.source)):
                raise ValueError(f"{piece} is not in the source")
        return self


Cases = Mapping[str, tuple[Case, ...]]
"""The cases of each category."""


class _Text(NamedTuple):
    """A translation in the forms that checks look at."""

    exact: str
    """Only composed (NFC), and its spaces made plain."""
    plain: str
    """The text without differences that do not count; without accents, too, where capitals are required."""


def check(case: Case, translation: str) -> list[str]:
    """Return what is wrong with a translation, in words; nothing for one that passes."""
    text = _Text(_exact(translation), _plain(translation, case))
    if not text.exact:
        return ["is empty"]
    return [problem for find_problems in _CHECKS for problem in find_problems(case, text)]


def _exact(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _plain(text: str, case: Case) -> str:
    text = re.sub("[“„«] ?| ?[”»]", '"', _exact(text).casefold().translate(_PLAIN))
    if case.upper:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return text


def _count(piece: str, text: str) -> int:
    """Count `piece` in `text`, but not inside a longer word, unless a final * lets it go on."""
    stem = piece.removesuffix("*")
    before = r"(?<!\w)" if re.match(r"\w", stem) else ""
    after = r"(?!\w)" if re.search(r"\w$", piece) else ""
    return len(re.findall(before + re.escape(stem) + after, text))


def _has(words: tuple[str, ...], case: Case, text: _Text) -> bool:
    return any(_count(_plain(word, case), text.plain) for word in words)


def _contents(case: Case, text: _Text) -> Iterator[str]:
    for words in case.contains:
        if not _has(words, case, text):
            yield f"lacks {' or '.join(words)}"
    if case.equals is not None and text.plain.rstrip(" .!?") not in {_plain(choice, case) for choice in case.equals}:
        yield f"is not {' or '.join(case.equals)}"


def _verbatim(case: Case, text: _Text) -> Iterator[str]:
    for piece in case.verbatim:
        wanted, found = (_count(_exact(piece), side) for side in (_exact(case.source), text.exact))
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
    source = len(_exact(case.source))
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


def cases_path(direction: Direction, name: str = "robustness") -> Path:
    """A file of cases that comes with the trainer; raises `CaseError` where there is none of that name."""
    path = CASES / f"{name}.{direction}.toml"
    if not path.is_file():
        names = sorted(each.name.split(".")[0] for each in CASES.glob(f"*.{direction}.toml"))
        raise CaseError(f"no {name} cases for {direction}; there are: {', '.join(names) or 'none'}")
    return path


def load_cases(path: Path) -> Cases:
    """The cases of a TOML file, `"category" = [{ source = ..., ... }, ...]`; raises `CaseError` with all problems."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CaseError(f"{path.name}: {error}") from error
    problems: list[str] = [] if tables else ["no cases"]
    cases = {category: tuple(_load_category(category, rows, problems)) for category, rows in tables.items()}
    seen: set[str] = set()
    for case in (case for category in cases.values() for case in category):
        if case.source in seen:
            problems.append(f"twice the same source: {case.source}")
        seen.add(case.source)
    if problems:
        raise CaseError("\n".join(f"{path.name}: {problem}" for problem in problems))
    return cases


def _load_category(category: str, rows: object, problems: list[str]) -> Iterator[Case]:
    if not isinstance(rows, list) or not rows:
        problems.append(f"{category}: expected a list of cases")
        return
    for number, row in enumerate(rows, start=1):
        try:
            yield Case.model_validate(row)
        except ValidationError as error:
            source = row.get("source", "no source") if isinstance(row, dict) else row
            for detail in error.errors():
                where = ".".join(map(str, detail["loc"]))
                problems.append(f"{category}, case {number} ({source}): {where + ': ' if where else ''}{detail['msg']}")


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
    """Translate every source in one call, and judge; raises `ValueError` where `translate` gives more or fewer."""
    sources = [case.source for members in cases.values() for case in members]
    translations = translate(sources)
    if len(translations) != len(sources):
        raise ValueError(f"{len(sources)} sources, but {len(translations)} translations")
    translated = dict(zip(sources, translations, strict=True))
    return [_judge(category, members, translated) for category, members in cases.items()]


def _judge(category: str, cases: tuple[Case, ...], translations: Mapping[str, str]) -> CategoryResult:
    judged = [(case, translations[case.source]) for case in cases]
    failures = [Failure(case, text, problems) for case, text in judged if (problems := check(case, text))]
    return CategoryResult(category, len(cases), tuple(failures))


def markdown(results: list[CategoryResult]) -> str:
    """A table: category, passed/total, and the first failure of each."""
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
