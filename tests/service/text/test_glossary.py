"""Glossaries: terms are found as whole words, in their possible forms; files of entries are read and checked."""

import random
from collections.abc import Iterator

import pytest

from service.text import glossary as module
from service.text.glossary import EntriesError, Format, Glossary, read_entries, write_entries
from service.text.splitter import Splitter

GLOSSARY = Glossary(
    {"cat": "matou", "cat  food": "croquettes", "Dr. No": "Dr Non", "iPhone": "iTruc", "C++": "C plus", "猫": "cat"}
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a cat, the cat's", ["cat:matou", "cat:matou"]),
        ("cats, concat, cat_1, cat2", []),
        ("some cat food", ["cat food:croquettes"]),
        ("cat\n  food", ["cat\n  food:croquettes"]),
        ("cat foods", ["cat:matou"]),
        ("Cat food. My Cat. “Cat!", ["Cat food:croquettes"]),
        ("The CAT", ["CAT:MATOU"]),
        ("an iPhone, an IPHONE, an iphone", ["iPhone:iTruc"]),
        ("in C++, not C", ["C++:C plus"]),
        ("我喜欢猫和iPhone", ["猫:cat", "iPhone:iTruc"]),
        ("", []),
    ],
)
def test_terms_are_whole_words(text: str, expected: list[str]) -> None:
    found = GLOSSARY.find(text)
    written = [(each.translation.upper() if each.capitals else each.translation, each) for each in found]
    assert [f"{text[each.start : each.end]}:{translation}" for translation, each in written] == expected


def test_every_sentence_may_begin_with_a_capital() -> None:
    text = "Dr. No came. “Cat” he said. The Cat. Cat!"
    segments = list(Splitter(lambda segment: True, find_terms=GLOSSARY.find).split(text, "en"))
    assert [(each.sentence, [term.translation for term in each.terms]) for each in segments] == [
        ("Dr. No came.", ["Dr Non"]),
        ("“Cat” he said.", ["matou"]),
        ("The Cat.", []),
        ("Cat!", ["matou"]),
    ]


def test_the_longer_of_two_overlapping_terms_is_kept() -> None:
    glossary = Glossary({"cat": "matou", "example.com": "ici", "say {name} now": "dis"})
    text = "a cat, {cat}, https://a.org/cat, example.com, say {name} now"
    [segment] = Splitter(lambda segment: True, find_terms=glossary.find).split(text, "en")
    assert [term.translation for term in segment.terms] == ["matou", "{cat}", "https://a.org/cat", "ici", "dis"]
    assert segment.model_input().text == "a cat, X, X, example.com, say {name} now"


def test_terms_that_never_match_are_not_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token takes one search among all terms, however many lengths they have."""
    searches = 0
    longest = module._PrefixIndex.longest

    def counted(self: module._PrefixIndex, other: str) -> int:
        nonlocal searches
        searches += 1
        return longest(self, other)

    monkeypatch.setattr(module._PrefixIndex, "longest", counted)
    glossary = Glossary({f"{'.' * length}!": "x" for length in range(1, 200)} | {f"{'. ' * 99}{n}": "x" for n in "ab"})
    assert not [*glossary.find("." * 10_000)]
    assert searches <= 3 * 10_000


def test_the_search_finds_what_trying_every_term_finds() -> None:
    chance = random.Random(0)
    parts = ["a", "A", "ab", "Ab", "AB", ".", "-", "1", "ß", "É", "é", "猫", "σ", "Σ"]

    def text(most: int) -> str:
        return "".join(chance.choice(parts) + chance.choice(["", " ", "  "]) for _ in range(chance.randint(1, most)))

    for _ in range(1000):
        entries = {" ".join(text(5).split()): f"{number}" for number in range(chance.randint(1, 30))}
        words = text(40)
        beginnings = sorted({0, *(chance.randrange(len(words)) for _ in range(chance.randint(0, 5)))})
        found = [
            (each.start, each.end, each.translation, each.capitals)
            for each in Glossary(entries).find(words, beginnings)
        ]
        assert found == [*_tried(entries, words, beginnings)], (entries, words, beginnings)


def _tried(entries: dict[str, str], text: str, beginnings: list[int]) -> Iterator[tuple[int, int, str, bool]]:
    spans = [match.span() for match in module._TOKEN.finditer(text)]
    number = 0
    reached = 0
    while number < len(spans):
        start, end = spans[number]
        opens = any(reached <= each <= start for each in beginnings)
        is_first = opens and text[start].isalnum()
        for last in reversed(range(number, len(spans))):
            words = " ".join(text[start : spans[last][1]].split())
            lower = words.lower()
            capitals = words.isupper() and len(words) > 1
            titled = is_first and words == lower[:1].upper() + lower[1:]
            if words in entries or (lower in entries and (capitals or titled)):
                end = spans[last][1]
                exact = words in entries
                yield start, end, entries[words if exact else lower], capitals and not exact
                number = last
                break
        if is_first:
            reached = end
        number += 1


def test_entries_are_read_as_they_were_written() -> None:
    entries = {"cat": "matou", 'a "big"  cat': "gros, matou"}
    plain = {" ".join(term.split()): translation for term, translation in entries.items()}
    assert read_entries(write_entries(entries), "tsv") == plain
    assert read_entries('\n cat , matou ,en,fr\r\n"a ""big""  cat","gros, matou"\n', "csv") == plain
    assert read_entries(" \n", "tsv") == {}


@pytest.mark.parametrize(
    ("text", "format", "problem"),
    [
        ("cat", "tsv", "line 1 is not"),
        ("a\tb\n\tc", "tsv", "line 2 is not"),
        ("a\tb\tc", "tsv", "line 1 is not"),
        ("a,", "csv", "line 1 is not"),
        ("a,b\n\n a ,c", "csv", "line 3 repeats a term: a"),
        (f"a,{'x' * 201}", "csv", "line 1: a side is longer than 200"),
        ("a,b\nc,d\ne,f\nwhat is never looked at", "csv", "more than 2 entries, the limit"),
        ("a,b" + "x" * 200_000, "csv", "line 1: field larger than"),
    ],
)
def test_wrong_entries_are_named(text: str, format: Format, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 2)
    with pytest.raises(EntriesError, match=problem):
        read_entries(text, format)
