"""Aligned units of translation memories, tables and localisation files: the same text in two or more languages.

XML is streamed: a memory of 300 MB needs no more of the machine than a small one. Inline codes become tags or
placeholders in the text, numbered alike in all languages of a unit.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, ParseError, iterparse

import msgspec
import regex

from service.documents.encodings import PO
from service.documents.gettext import po_units
from service.documents.xliff import UNFINISHED
from service.errors import InvalidRequest
from service.text.language_codes import without_country
from service.text.placeholders import TAG, is_verbatim
from service.text.segment import with_single_spaces

LONGEST: Final = 5_000
"""Characters of a unit in one language; longer ones are chapters, which nobody writes twice."""
_LANGUAGE: Final = regex.compile(r"[a-zA-Z]{2,3}(?:[-_][a-zA-Z0-9]{2,8})*")
_IN_NAME: Final = regex.compile(r"(?:.*[._-])?([a-z]{2,3})-([a-z]{2,3})\.\w+")

Unit = Mapping[str, str]
"""The texts of a unit by their languages, in lower case and without a country."""
Languages = tuple[str, str]
"""The languages of source and target."""


@dataclass
class UnitReport:
    """Counts of the units that were read, and of those that were left out."""

    units: int = 0
    left: Counter[str] = field(default_factory=Counter)
    """The number of units or texts that were left out, by the reason."""

    def in_words(self) -> list[str]:
        return [f"{self.units:,} units", *(f"{count:,} left out: {why}" for why, count in (+self.left).most_common())]


def read_units(path: Path, report: UnitReport, languages: Languages | None = None) -> Iterator[Unit]:
    """Yield the units of a file: TMX, XLIFF, PO, a table of two columns, or suggestions as lines of JSON.

    `languages` are those of a file that does not say them; without them its name does: `shop.en-fr.tsv`. Raises
    `InvalidRequest` for a broken file and unknown languages, and `OSError`.
    """
    ending = path.suffix.lower().lstrip(".")
    if ending not in _READERS:
        raise InvalidRequest(path.name, f"is no memory: its name must end in one of {', '.join(_READERS)}")
    named = _IN_NAME.fullmatch(path.name.lower())
    if languages is None and named is not None:
        languages = named[1], named[2]
    try:
        for texts in _READERS[ending](path, languages, report):
            if unit := _checked(texts, report):
                report.units += 1
                yield unit
    except ParseError as error:
        raise InvalidRequest(path.name, f"the XML in it is broken: {error}") from None
    except RecursionError:
        raise InvalidRequest(path.name, "it is nested too deep") from None
    except UnicodeDecodeError:
        raise InvalidRequest(path.name, "its text is not in the encoding that it declares, or not in UTF-8") from None
    except (csv.Error, msgspec.DecodeError) as error:
        raise InvalidRequest(path.name, f"it is broken: {error}") from None


def _checked(texts: list[tuple[str, str]], report: UnitReport) -> Unit | None:
    """Return a unit of (language, text) pairs; None if there is nothing in it to learn from."""
    unit: dict[str, str] = {}
    for code, raw in texts:
        text = with_single_spaces(raw).strip()
        language = without_country(code) if _LANGUAGE.fullmatch(code) else ""
        reason = (
            (not language and "without a language")
            or (not text and "empty")
            or (len(text) > LONGEST and f"longer than {LONGEST:,} characters")
            or (language in unit and "a language of the unit once more")
        )
        if reason:
            report.left[reason] += 1
        else:
            unit[language] = text
    if len(unit) < 2:
        report.left["in one language only"] += bool(unit)
        return None
    if len(set(unit.values())) == 1:
        report.left["not translated: equal in all languages"] += 1
        return None
    has_tags = any("<" in text for text in unit.values())
    if has_tags and len({tuple(sorted(TAG.findall(text))) for text in unit.values()}) > 1:
        report.left["inline codes that differ between the languages; the words were read"] += 1
        unit = {language: with_single_spaces(TAG.sub("", text)).strip() for language, text in unit.items()}
    return unit if all(unit.values()) else None


Texts = Iterator[list[tuple[str, str]]]


_UNITS: Final = frozenset({"tu", "trans-unit", "segment"})
_CODES: Final = frozenset("bpt ept ph it ut x bx ex sc ec cp".split())
"""Inline codes; the content of some is the code of another format, not text."""
_OPENING: Final = frozenset("bpt bx sc".split())
_CLOSING: Final = frozenset("ept ex ec".split())
_WRAPPERS: Final = frozenset("g pc".split())
_LANGUAGES: Final = {"source": ("source-language", "srcLang"), "target": ("target-language", "trgLang")}
_XML_LANGUAGE: Final = "{http://www.w3.org/XML/1998/namespace}lang"


def _xml(path: Path, _: Languages | None, __: UnitReport) -> Texts:
    """Read the units of TMX or XLIFF. Each is a tree; nothing else of the file is kept."""
    languages = {"source": "", "target": ""}  # of XLIFF
    opened: list[Element] = []
    units = 0  # around the present place
    for event, element in iterparse(path, ("start", "end")):
        if event == "start":
            element.tag = element.tag.rpartition("}")[2]
            opened.append(element)
            units += element.tag in _UNITS
            if element.tag in ("file", "xliff"):
                for end, names in _LANGUAGES.items():
                    languages[end] = next(filter(None, map(element.get, names)), languages[end])
            continue
        opened.pop()
        units -= element.tag in _UNITS
        if units == 0:
            if element.tag in _UNITS:
                yield _texts_of(element, languages)
            if opened:
                opened[-1].remove(element)


def _texts_of(unit: Element, languages: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the texts of a unit with their languages; an unfinished translation is ""."""
    numbers: dict[str, int] = {}
    if unit.tag == "tu":
        segments = (
            (variant.get(_XML_LANGUAGE, variant.get("lang", "")), variant.find("seg"))
            for variant in unit.iterfind("tuv")
        )
        return [(language, _text(each, numbers)) for language, each in segments if each is not None]
    source, target = unit.find("source"), unit.find("target")
    texts = [] if source is None else [(languages["source"], _text(source, numbers))]
    if target is not None:
        is_unfinished = target.get("state", unit.get("state")) in UNFINISHED
        texts.append((languages["target"], "" if is_unfinished else _text(target, numbers)))
    return texts


def _text(element: Element, numbers: dict[str, int]) -> str:
    """Return a text. `numbers` are those of the codes of its unit, by their kinds and ids."""
    parts: list[str] = []

    def add(inside: Element) -> None:
        parts.append(inside.text or "")
        for each in inside:
            if each.tag in _WRAPPERS:
                number = _number(each, len(parts), numbers)
                parts.append(f"<{number}>")
                add(each)
                parts.append(f"</{number}>")
            elif each.tag in _CODES:
                parts.append(_code(each, len(parts), numbers))
            elif each.tag != "sub":
                add(each)
            parts.append(each.tail or "")

    add(element)
    return "".join(parts)


def _number(code: Element, place: int, numbers: dict[str, int]) -> int:
    """Return the number of a code: the same for one that begins something and the one that ends it."""
    identifier = next(filter(None, map(code.get, ("x", "rid", "startRef", "id", "i"))), None) or f"{code.tag} {place}"
    kind = "pair" if code.tag in _OPENING | _CLOSING else code.tag
    return numbers.setdefault(f"{kind} {identifier}", len(numbers) + 1)


def _code(code: Element, place: int, numbers: dict[str, int]) -> str:
    """Return a code as a text has it: what it stands for if that is a tag or a placeholder, else its number."""
    content = "".join([code.text or "", *(inner.tail or "" for inner in code)])
    written = content or code.get("equiv-text") or code.get("equiv") or ""
    if TAG.fullmatch(written) or is_verbatim(written):
        return written
    number = _number(code, place, numbers)
    return f"<{number}>" if code.tag in _OPENING else f"</{number}>" if code.tag in _CLOSING else f"<{number}/>"


def _table(path: Path, languages: Languages | None, report: UnitReport) -> Texts:
    """Read two columns; the first row may have their languages."""
    with path.open("rb") as beginning:
        is_wide = beginning.read(2) in (b"\xff\xfe", b"\xfe\xff")
    is_tsv = path.suffix.lower() == ".tsv"
    with path.open(encoding="utf-16" if is_wide else "utf-8-sig", newline="") as file:
        # In a TSV of a corpus, quotes are characters like any other.
        delimiter = "\t" if is_tsv else ";" if file.readline().count(";") else ","
        file.seek(0)
        rows = csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL)
        first = next(rows, [])
        if len(first) >= 2 and all(_LANGUAGE.fullmatch(each.strip()) for each in first[:2]):
            named = first[0].strip(), first[1].strip()
            first = [] if languages is None or set(map(without_country, named)) == set(languages) else first
            languages = languages if first else named
        if languages is None:
            raise InvalidRequest(
                path.name, "its languages are unknown: begin it with a row of them, or name it as NAME.en-fr.tsv"
            )
        for row in filter(None, (first, *rows)):
            if len(row) < 2:
                report.left["rows without two columns"] += 1
            else:
                yield [*zip(languages, row, strict=False)]


def _po(path: Path, languages: Languages | None, report: UnitReport) -> Texts:
    text, _ = PO.decode(path.read_bytes())
    for language, source, target in po_units(text):
        pair = languages or ("en", language)
        if not target:
            report.left["unfinished or fuzzy"] += 1
        else:
            yield [(pair[0], source), (pair[1], target)]


class _Suggested(msgspec.Struct):
    q: str
    s: str
    source: str
    target: str


def _suggestions(path: Path, _: Languages | None, __: UnitReport) -> Texts:
    """Read what callers sent to `POST /suggest`; a line that is being written is left for the next time."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                each = msgspec.json.decode(line, type=_Suggested)
                yield [(each.source, each.q), (each.target, each.s)]


_READERS: Final[Mapping[str, Callable[[Path, Languages | None, UnitReport], Texts]]] = {
    "tmx": _xml,
    "xlf": _xml,
    "xliff": _xml,
    "po": _po,
    "tsv": _table,
    "csv": _table,
    "jsonl": _suggestions,
}
"""The readers of memories by the endings of their files' names."""
