"""Aligned units of translation memories, tables and localisation files: the same text in two or more languages.

XML is streamed: a memory of 300 MB needs no more of the machine than a small one. Inline codes become tags or
placeholders in the text, numbered alike in all languages of a unit.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers import expat
from xml.parsers.expat import errors

import msgspec
import regex

from service.documents.encodings import PO
from service.documents.gettext import po_units
from service.errors import InvalidRequest
from service.text.language_codes import without_country
from service.text.placeholders import TAG, is_verbatim
from service.text.segment import with_single_spaces

LONGEST: Final = 5_000
"""Characters of a unit in one language; longer ones are chapters, which nobody writes twice."""
_CHUNK_BYTES: Final = 1 << 16
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
    except expat.ExpatError as error:
        place = f"line {error.lineno}, column {error.offset + 1}"
        raise InvalidRequest(path.name, f"the XML in it is broken: {errors.messages[error.code]} ({place})") from None
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


_CODES: Final = frozenset("bpt ept ph it ut x bx ex sc ec cp".split())
"""Inline codes; the content of some is the code of another format, not text."""
_OPENING: Final = frozenset("bpt bx sc".split())
_CLOSING: Final = frozenset("ept ex ec".split())
_WRAPPERS: Final = frozenset("g pc".split())
_LANGUAGES: Final = {"source": ("source-language", "srcLang"), "target": ("target-language", "trgLang")}
_UNFINISHED: Final = frozenset({"new", "initial", "needs-translation"})


class _XmlUnits:
    """Reads the units of TMX or XLIFF from expat's events, as they come."""

    def __init__(self, path: Path, report: UnitReport) -> None:
        self._path = path
        self._report = report
        self._found: list[list[tuple[str, str]]] = []
        self._languages = {"source": "", "target": ""}  # of XLIFF
        self._unit: list[tuple[str, str]] | None = None
        self._language = ""
        self._state = ""
        self._text: list[str] | None = None
        self._code: list[str] | None = None
        """The content of the code that is open."""
        self._skipped = 0
        """Open elements whose content is left out: other programs' proposals, and texts in codes."""
        self._numbers: dict[str, int] = {}
        self._wrappers: list[int] = []
        self._attributes: Mapping[str, str] = {}
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._refuse
        self._parser.buffer_text = True

    def read(self) -> Texts:
        with self._path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                self._parser.Parse(chunk, False)
                yield from self._found
                self._found.clear()
        self._parser.Parse(b"", True)
        yield from self._found

    def _refuse(self, *_: object) -> NoReturn:
        raise InvalidRequest(self._path.name, "it declares entities, which a memory never needs")

    def _start(self, qualified: str, values: dict[str, str]) -> None:
        name = qualified.rpartition(" ")[2]
        if self._skipped or (name in ("alt-trans", "matches", "seg-source", "sub")):
            self._skipped += 1
        elif self._text is not None:
            self._start_inline(name, values)
        elif name in ("file", "xliff"):
            for end, names in _LANGUAGES.items():
                self._languages[end] = next(filter(None, map(values.get, names)), self._languages[end])
        elif name in ("tu", "trans-unit", "segment"):
            self._unit, self._numbers, self._state = [], {}, values.get("state", "")
        elif name == "tuv":
            self._language = values.get("http://www.w3.org/XML/1998/namespace lang") or values.get("lang", "")
        elif name in ("source", "target") and self._unit is not None:
            self._language = self._languages[name]
            self._state = values.get("state", self._state)
            self._text = []
        elif name == "seg" and self._unit is not None:
            self._text = []
        self._wrappers = self._wrappers if self._text else []

    def _start_inline(self, name: str, values: Mapping[str, str]) -> None:
        assert self._text is not None
        if name in _WRAPPERS:
            self._wrappers.append(self._number(name, values))
            self._text.append(f"<{self._wrappers[-1]}>")
        elif name in _CODES:
            self._code, self._attributes = [], values

    def _number(self, name: str, values: Mapping[str, str]) -> int:
        """Return the number of a code: the same for one that begins something and the one that ends it."""
        names = ("x", "rid", "startRef", "id", "i")
        identifier = next(filter(None, map(values.get, names)), None) or f"{name} {len(self._text or ())}"
        kind = "pair" if name in _OPENING | _CLOSING else name
        return self._numbers.setdefault(f"{kind} {identifier}", len(self._numbers) + 1)

    def _characters(self, text: str) -> None:
        if not self._skipped and self._text is not None:
            (self._text if self._code is None else self._code).append(text)

    def _end(self, qualified: str) -> None:
        name = qualified.rpartition(" ")[2]
        if self._skipped:
            self._skipped -= 1
        elif self._text is not None and name in ("seg", "source", "target"):
            assert self._unit is not None
            is_unfinished = name == "target" and self._state in _UNFINISHED
            self._unit.append((self._language, "" if is_unfinished else "".join(self._text)))
            self._text = self._code = None
        elif self._text is not None and name in _WRAPPERS:
            self._text.append(f"</{self._wrappers.pop()}>")
        elif self._text is not None and self._code is not None and name in _CODES:
            self._text.append(self._written(name, "".join(self._code)))
            self._code = None
        elif name in ("tu", "trans-unit", "segment") and self._unit is not None:
            self._found.append(self._unit)
            self._unit = None

    def _written(self, name: str, content: str) -> str:
        """Return a code as a text has it: what it stands for if that is a tag or a placeholder, else its number."""
        written = content or self._attributes.get("equiv-text") or self._attributes.get("equiv") or ""
        if TAG.fullmatch(written) or is_verbatim(written):
            return written
        number = self._number(name, self._attributes)
        return f"<{number}>" if name in _OPENING else f"</{number}>" if name in _CLOSING else f"<{number}/>"


def _xml(path: Path, _: Languages | None, report: UnitReport) -> Texts:
    yield from _XmlUnits(path, report).read()


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
