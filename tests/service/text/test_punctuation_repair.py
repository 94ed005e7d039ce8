"""Quotation marks and the mark at the end of a translation, in parts of any length."""

import pytest

from service.text.punctuation_repair import FinalExclamation, OpeningMarks
from service.text.segment import Aligned


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('Click on " Next", then', 'Click on "Next", then'),
        ('" No", he said. " Never."', '"No", he said. "Never."'),
        ('(" A") [" B"]', '("A") ["B"]'),
        ('"Yes" or "no"', '"Yes" or "no"'),
        ('A 12" screen and a 15 " one', 'A 12" screen and a 15 " one'),
        ('He said "yes" and "no" to " all"', 'He said "yes" and "no" to "all"'),
        ("« Suivant »", "« Suivant »"),
        ('"', '"'),
    ],
)
def test_no_space_follows_a_mark_that_opens(written: str, expected: str) -> None:
    for length in (1, 2, 3, len(written)):
        marks = OpeningMarks("«»")
        parts = [written[start : start + length] for start in range(0, len(written), length)]
        assert "".join(map(marks.push, parts)) == expected


@pytest.mark.parametrize(("sentence", "needs"), [("l'eau", False), ("it’s", False), ("«a»", True), ("„a“", True)])
def test_only_a_sentence_with_quotation_marks_is_looked_at(sentence: str, needs: bool) -> None:
    marks = OpeningMarks(sentence)
    assert (marks.is_needed, marks.push('" A"')) == (needs, '"A"' if needs else '" A"')


def test_a_space_follows_a_mark_that_opens_in_french() -> None:
    marks = OpeningMarks('"', is_french=True)
    assert "".join(map(marks.push, ["Le «sta", "tut » et «", "\u00a0non »"])) == "Le «\u00a0statut » et «\u00a0non »"


@pytest.mark.parametrize(
    ("sentence", "written", "expected"),
    [
        ("Viens ici !", "Come here.", "Come here!"),
        ("À 8 h. Viens !", "At 8 a.m. come.", "At 8 a.m. come!"),
        ("Attends...!", "Wait...", "Wait..."),
        ("Viens !", "Come!", "Come!"),
        ("Viens.", "Come.", "Come."),
    ],
)
def test_a_full_stop_becomes_the_exclamation_mark_of_the_sentence(sentence: str, written: str, expected: str) -> None:
    for length in (1, 2, 3, len(written)):
        ending = FinalExclamation(sentence)
        parts = [Aligned(written[start : start + length], start) for start in range(0, len(written), length)]
        final = [ending.push([part], is_last=False) for part in parts] + [ending.push([], is_last=True)]
        assert "".join(part.text for parts in final for part in parts) == expected


def test_a_french_exclamation_mark_has_its_space() -> None:
    ending = FinalExclamation("Come!", is_french=True)
    assert ending.push([Aligned("Viens.", 0)], is_last=True) == [Aligned("Viens\u00a0!", 0)]
