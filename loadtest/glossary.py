"""What terms of a glossary do to translations, for terms that the model would translate otherwise.

`python -m loadtest.glossary loadtest/glossaries/en-fr.tsv TEXTS --source en --target fr -- FLAGS OF serve`

A line of the table has a term, the words by which the model translates it, and another translation, wished here. A
sentence is taken if the model has exactly one of its own words for the term, and neither model nor reference (the
second column of `TEXTS`, if there is one) has the wished one. The translation with the term as the only entry of a
glossary is compared with the one without it.
"""

import asyncio
import lzma
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import httpx
import sacrebleu
import typer

from loadtest.local_server import connect, run_server, translate

_WORD: Final = re.compile(r"\w+")
_MOST_WORDS: Final = 40
_PER_TERM: Final = 20
"""Sentences of a term that are translated to find those that can be taken."""


class Case(NamedTuple):
    """A sentence with one term."""

    source: str
    term: str
    own: frozenset[str]
    """The words by which a model translates the term."""
    wish: str


class Verdict(NamedTuple):
    """What became of a sentence; the last field is chrF of the rest against the translation without a glossary."""

    is_there: bool
    is_in_place: bool
    own_is_gone: bool
    loses_words: bool
    adds_words: bool
    rest_chrf: float

    @property
    def is_right(self) -> bool:
        return self.is_in_place and self.own_is_gone and not self.loses_words and not self.adds_words


def words_of(text: str) -> list[str]:
    """Return the words in lower case."""
    return _WORD.findall(text.lower())


def place_of(words: Sequence[str], wish: Sequence[str]) -> int | None:
    """Return where `wish` begins in `words`."""
    length = len(wish)
    return next((i for i in range(len(words) - length + 1) if [*words[i : i + length]] == [*wish]), None)


def own_places(words: Sequence[str], case: Case) -> list[int]:
    """Return where the model's own words for the term are, if they stand together in one place; otherwise []."""
    found = [place for place, word in enumerate(words) if word in case.own]
    return found if found and found[-1] - found[0] < max(len(case.term.split()), 2) + 1 else []


def judge(case: Case, free: str, translated: str) -> Verdict:
    """Compare a translation with a glossary to the free one.

    The term is in its place if as many words, give or take one, stand before or behind it as of the model's own word,
    or the same longer word is beside it. Words are lost (added) if the rest has fewer (more) by two and by 15 % (25 %).
    """
    before, after = words_of(free), words_of(translated)
    own, wish = own_places(before, case), words_of(case.wish)
    place = place_of(after, wish)
    rest_before = [word for number, word in enumerate(before) if number not in own]
    rest = after if place is None else [*after[:place], *after[place + len(wish) :]]
    chrf = sacrebleu.sentence_chrf(" ".join(rest), [" ".join(rest_before)]).score if rest_before else 100.0
    is_in_place = False
    if place is not None:
        from_end = len(after) - place - len(wish) - (len(before) - own[-1] - 1)
        is_in_place = min(abs(place - own[0]), abs(from_end)) <= 1 or (
            _neighbours(after[:place], after[place + len(wish) :])
            & _neighbours(before[: own[0]], before[own[-1] + 1 :])
            != set()
        )
    length, free_length = len(rest), len(rest_before)
    return Verdict(
        place is not None,
        is_in_place,
        not case.own.intersection(rest),
        length < free_length - max(1, 0.15 * free_length),
        length > free_length + max(1, 0.25 * free_length),
        chrf,
    )


def _neighbours(left: Sequence[str], right: Sequence[str]) -> set[str]:
    """Return the next longer word on each side, with its side."""
    return {side + word for side, words in (("<", left[::-1]), (">", right)) for word in _longer(words)[:1]}


def _longer(words: Sequence[str]) -> list[str]:
    return [word for word in words if len(word) > 3]


def candidates(table: Path, texts: Path) -> list[tuple[Case, str]]:
    """Return the sentences that have a term exactly once, with their references, in a fixed random order."""
    opener = lzma.open if texts.suffix == ".xz" else open
    with opener(texts, "rt", encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").partition("\t")[::2] for line in lines]
    random.Random(0).shuffle(pairs)
    found: list[tuple[Case, str]] = []
    for line in table.read_text(encoding="utf-8").splitlines():
        term, own, wish = line.split("\t")
        spaced = term.isascii() or term[0] < "\u3000"
        pattern = re.compile(rf"(?<!\w){re.escape(term)}(?!\w)" if spaced else re.escape(term))
        fitting = [
            (Case(source, term, frozenset(words_of(own)), wish), reference)
            for source, reference in pairs
            if len(pattern.findall(source)) == 1 and len(source.split()) <= _MOST_WORDS
        ]
        found += fitting[:_PER_TERM]
    random.Random(1).shuffle(found)
    return found


def usable(drafts: Sequence[tuple[Case, str, str]], count: int) -> Iterator[tuple[Case, str]]:
    """Yield the sentences, with their free translations, that a model translates with its own word for the term."""
    taken = 0
    for case, reference, free in drafts:
        words, wish = words_of(free), words_of(case.wish)
        avoided = place_of(words, wish) is None and place_of(words_of(reference), wish) is None
        if taken < count and avoided and own_places(words, case) and len(words) > 1:
            taken += 1
            yield case, free


async def _measure(url: httpx.AsyncClient, table: Path, texts: Path, count: int, options: dict[str, object]) -> None:
    chosen = candidates(table, texts)
    drafts: list[str] = []
    for start in range(0, len(chosen), 200):
        drafts += await translate(url, [case.source for case, _ in chosen[start : start + 200]], options)
    pairs = zip(chosen, drafts, strict=True)
    cases = [*usable([(case, reference, free) for (case, reference), free in pairs], count)]
    gate = asyncio.Semaphore(8)

    async def with_term(case: Case) -> str:
        async with gate:
            [text] = await translate(url, [case.source], {**options, "glossary": {case.term: case.wish}})
            return text

    texts_with = await asyncio.gather(*(with_term(case) for case, _ in cases))
    verdicts = [judge(case, free, text) for (case, free), text in zip(cases, texts_with, strict=True)]
    for (case, free), text, verdict in zip(cases, texts_with, verdicts, strict=True):
        if not verdict.is_right:
            flags = " ".join(name for name, value in zip(verdict._fields[:5], verdict[:5], strict=True) if value)
            typer.echo(f"{case.term} -> {case.wish}: {case.source}\n  {free}\n  {text}\n  [{flags}]", err=True)
    total = len(verdicts)
    for name, number in {
        "term there": sum(each.is_there for each in verdicts),
        "term in its place": sum(each.is_in_place for each in verdicts),
        "own word still there": sum(not each.own_is_gone for each in verdicts),
        "words lost": sum(each.loses_words for each in verdicts),
        "words added": sum(each.adds_words for each in verdicts),
        "right": sum(each.is_right for each in verdicts),
    }.items():
        typer.echo(f"{name}: {number} of {total} ({100 * number / total:.1f} %)")
    typer.echo(f"chrF of the rest: {sum(each.rest_chrf for each in verdicts) / total:.1f}")


def main(  # noqa: PLR0913  one for each option
    table: Annotated[Path, typer.Argument(help="Terms, own words and wished words, separated by tabs.")],
    texts: Annotated[Path, typer.Argument(help="Sentences, and references after a tab.")],
    flags: Annotated[list[str] | None, typer.Argument(help="Flags of `dragoman serve`, after --.")] = None,
    source: Annotated[str, typer.Option()] = "en",
    target: Annotated[str, typer.Option()] = "fr",
    count: Annotated[int, typer.Option(help="Sentences to judge.")] = 500,
    beam_size: Annotated[int, typer.Option()] = 1,
) -> None:
    """Print how often terms of a glossary do what they should; what went wrong goes to standard error."""

    async def run() -> None:
        with run_server(flags or []) as server:
            async with connect(server) as client:
                options = {"source": source, "target": target, "beam_size": beam_size}
                await _measure(client, table, texts, count, options)

    asyncio.run(run())


if __name__ == "__main__":
    typer.run(main)
