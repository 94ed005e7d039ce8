"""Tables of values: CSV and TSV."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import takewhile
from typing import Final

import regex

from service.documents.paragraph import ReadOptions
from service.documents.passages import CODE, SHORT_WORDS, Passage
from service.errors import InvalidRequest
from service.text.segment import has_words

_LONGEST_HEADER: Final = 500
"""Characters of a header that an error shows."""
_SEPARATOR: Final = regex.compile(r"sep=([,;\t|])\r?\n")
"""The first line by which a file tells Excel what separates its cells."""
_LEAST_CODES: Final = 3
_DELIMITERS: Final = ",;\t|"


def read_table(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Read the cells of a table of values. Raises `InvalidRequest` for unknown columns."""
    declared = _SEPARATOR.match(text)
    start = declared.end() if declared else 0
    first = regex.split(r"[\r\n]", text[start:], maxsplit=1)[0]
    delimiter = declared[1] if declared else max(_DELIMITERS, key=first.count)
    header = [cell.text for _, _, cell in takewhile(lambda placed: placed[0] == 0, _cells(text, start, delimiter))]
    by_name = [each for each in options.columns if each in header]
    chosen = {_column(each, header) for each in options.columns}
    read = partial(_cells, text, start, delimiter, chosen, skips_header=bool(by_name))
    coded = _columns_of_codes(read())
    for row, column, cell in read():
        word = cell.text.strip()
        is_code = (row and column in coded and CODE.fullmatch(word)) or (row == 0 and word.lower() == "id")
        yield cell._replace(kept="a code that programs read") if is_code else cell


def _column(wanted: str, header: list[str]) -> int:
    if wanted in header:
        return header.index(wanted)
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= len(header):
        return int(wanted) - 1
    raise InvalidRequest("columns", f"the table has no column {wanted}; it has {', '.join(header)[:_LONGEST_HEADER]}")


def _cells(
    text: str, position: int, delimiter: str, chosen: Collection[int] = (), *, skips_header: bool = False
) -> Iterator[tuple[int, int, Passage]]:
    """Yield row, column and passage of each cell."""
    separator = regex.escape(delimiter)
    cell = regex.compile(
        rf'("(?:[^"]++|"")*+"|(?!")[^{separator}\r\n]*+)([^{separator}\r\n]*+)({separator}|\r?\n|\r|\Z)'
    )
    column = row = 0
    while position < len(text):
        found = cell.match(text, position)
        if found is None:
            raise InvalidRequest("file", f"the table is broken: a quote in row {row + 1} is not closed")
        position = found.end()
        raw, end = found[1], found[3]
        if (not chosen or column in chosen) and not (skips_header and row == 0):
            is_quoted = raw.startswith('"')
            value = raw[1:-1].replace('""', '"') if is_quoted else raw
            write = partial(_written, delimiter=delimiter, is_quoted=is_quoted)
            yield row, column, Passage(found.span(1), value, write, context="cell")
        column, row = (column + 1, row) if end == delimiter else (0, row + 1)


def _columns_of_codes(cells: Iterable[tuple[int, int, Passage]]) -> set[int]:
    """Return the columns in which, below the first row, as many texts are codes, such as those of countries, as not."""
    codes: defaultdict[int, list[str]] = defaultdict(list)
    others: Counter[int] = Counter()
    for row, column, cell in cells:
        if row and CODE.fullmatch(word := cell.text.strip()):
            codes[column].append(word)
        elif row and has_words(cell.text):
            others[column] += 1
    return {
        column
        for column, found in codes.items()
        if len({*found} - SHORT_WORDS) >= _LEAST_CODES and len(found) >= others[column]
    }


def _written(text: str, delimiter: str, is_quoted: bool) -> str:
    """Write a cell, in quotes if the source has quotes or the translation needs them."""
    needs_quotes = is_quoted or any(each in text for each in (delimiter, '"', "\n", "\r"))
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text
