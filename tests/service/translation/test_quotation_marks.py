"""Spaces at straight quotation marks, in parts of any length."""

import pytest

from service.translation.postprocess import OpeningMarks


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
