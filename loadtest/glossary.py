"""Glossaries on real sentences: `python -m loadtest.glossary --help`.

As Dinu et al. (2019, "Training Neural Machine Translation to Apply Terminology Constraints") choose their terms: the
entries of a dictionary whose word is in a sentence and whose translation is in its reference. Here only words that
stand behind an article or a possessive at least once in three times, which most nouns do and few others.
"""

import asyncio
import lzma
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import sacrebleu
import typer

from loadtest.local_server import Server, connect, run_server, translate
from loadtest.sentences import LANGUAGES

_DETERMINERS: Final = frozenset("the a an my your his her its our their this that these those no".split())
_WORD: Final = re.compile(r"[^\W\d_]+")
_SHORTEST: Final = 3  # letters
_LANES: Final = 32

app = typer.Typer(add_completion=False, help=__doc__)


class Line(NamedTuple):
    """A sentence, its reference, and the entries of the dictionary that both have."""

    source: str
    reference: str
    entries: Mapping[str, str]


@app.command()
def main(
    test: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="source<TAB>reference lines, plain or .xz; English and French."
        ),
    ],
    dictionary: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="word<TAB>translation lines, plain or .xz.")
    ],
    flags: Annotated[list[str] | None, typer.Argument(help="Behind --: the server's flags.")] = None,
    count: Annotated[int, typer.Option(help="At most so many sentences that have an entry, at random.")] = 2000,
    beam_size: Annotated[int, typer.Option(help="Hypotheses; 1 is greedy.")] = 1,
    examples: Annotated[int, typer.Option(help="Show so many sentences that the glossary changed.")] = 0,
) -> None:
    """Terms honoured, BLEU and chrF without and with a glossary for each sentence; and where the model needs it."""
    lines = list(_lines(_columns(test), dict(_columns(dictionary))))
    lines = random.Random(0).sample(lines, min(count, len(lines)))
    with run_server(flags or []) as server:
        without, given = asyncio.run(_both(server, lines, {"beam_size": beam_size}))
    missed = [number for number, line in enumerate(lines) if _honoured(line, without[number]) < len(line.entries)]
    typer.echo("| sentences | glossary | terms honoured | behind the end | BLEU | chrF |\n|---|---|---|---|---|---|")
    for name, numbers in (("all with a term", range(len(lines))), ("where the model missed one", missed)):
        for glossary, translations in (("without", without), ("with", given)):
            row = _row([lines[number] for number in numbers], [translations[number] for number in numbers])
            typer.echo(f"| {name}: {len(numbers)} | {glossary} | {row} |")
    changed = [number for number in range(len(lines)) if without[number] != given[number]]
    for number in changed[:examples]:
        typer.echo("\n".join(["", lines[number].source, str(lines[number].entries), without[number], given[number]]))


def _columns(file: Path) -> Iterator[tuple[str, str]]:
    opener = lzma.open if file.suffix == ".xz" else open
    with opener(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            source, _, target = line.rstrip("\n").partition("\t")
            yield source, target.partition("\t")[0]


def _lines(pairs: Iterator[tuple[str, str]], dictionary: Mapping[str, str]) -> Iterator[Line]:
    rows = [(source, reference, set(_words(reference))) for source, reference in pairs]
    nouns = _nouns(_words(source) for source, _, _ in rows)
    for source, reference, theirs in rows:
        # Written as the dictionary has them: "House" in the middle of a sentence is another word, and no term.
        known = {word: dictionary[word] for word in _WORD.findall(source) if word in nouns and word in dictionary}
        if entries := {word: translation for word, translation in known.items() if translation in theirs}:
            yield Line(source, reference, entries)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _nouns(sentences: Iterator[list[str]]) -> set[str]:
    all_of, behind = Counter[str](), Counter[str]()
    for words in sentences:
        all_of.update(words)
        behind.update(word for before, word in pairwise(words) if before in _DETERMINERS)
    return {word for word, found in behind.items() if len(word) >= _SHORTEST and 3 * found >= all_of[word]}


async def _both(server: Server, lines: Sequence[Line], body: dict[str, Any]) -> tuple[list[str], list[str]]:
    lanes = asyncio.Semaphore(_LANES)
    async with connect(server) as client:

        async def one(line: Line, glossary: Mapping[str, str]) -> str:
            async with lanes:
                [translated] = await translate(client, [line.source], {**LANGUAGES, **body, "glossary": glossary})
            return translated

        return (
            await asyncio.gather(*(one(line, {}) for line in lines)),
            await asyncio.gather(*(one(line, line.entries) for line in lines)),
        )


def _honoured(line: Line, translation: str) -> int:
    words = set(_words(translation))
    return sum(each in words for each in line.entries.values())


def _behind_the_end(line: Line, translation: str) -> int:
    """What has found no place in its sentence: terms that stand alone behind the last mark."""
    ends = (rf"[.!?»”\"]\s+{re.escape(term)}\s*[.!?]?$" for term in line.entries.values())
    return sum(re.search(end, translation, re.IGNORECASE) is not None for end in ends)


def _row(lines: Sequence[Line], translations: Sequence[str]) -> str:
    references = [[line.reference for line in lines]]
    terms = sum(len(line.entries) for line in lines)
    honoured = sum(map(_honoured, lines, translations))
    late = sum(map(_behind_the_end, lines, translations))
    bleu = sacrebleu.corpus_bleu(translations, references).score
    chrf = sacrebleu.corpus_chrf(translations, references).score
    return f"{honoured} of {terms} ({100 * honoured / max(terms, 1):.1f} %) | {late} | {bleu:.1f} | {chrf:.1f}"


if __name__ == "__main__":
    app()
