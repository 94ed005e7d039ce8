"""Every check can pass and can fail; the cases that come with the trainer are fair, and bad ones are refused."""

from itertools import chain
from pathlib import Path

import pytest

from model.checkpoint_config import Direction
from model.training.robustness import check, run
from model.training.robustness_cases import CASES, Case, Cases, cases_path, load_cases

UNRELATED = "Le temps est beau aujourd'hui."


def _case(source: str = "The cat is here.", **checks: object) -> Case:
    return Case.model_validate({"source": source, "contains": ["chat"]} | checks)


@pytest.mark.parametrize(
    ("checks", "good", "bad", "problem"),
    [
        ({}, "LE CHAT est là.", "Le château est là.", "lacks chat"),
        ({"contains": ["chat|matou"]}, "Le matou est là.", "Le chien est là.", "lacks chat or matou"),
        ({"contains": ["chat*"]}, "Les chatons sont là.", "L'achat est là.", "lacks chat*"),
        ({"contains": ["cœur"]}, "Le coeur est là.", "Le cour est là.", "lacks cœur"),
        ({"contains": ["l'été"]}, "C’est l’e\u0301té.", "C'est l'état.", "lacks l'été"),
        ({"contains": ["2 000"]}, "2\u202f000 chats", "2000 chats", "lacks 2 000"),
        ({"contains": ['"oui"']}, "Il dit «\u00a0oui\u00a0».", "Il dit oui.", 'lacks "oui"'),
        ({"contains": ['"oui"']}, "Il dit “oui”.", "Il dit 'oui'.", 'lacks "oui"'),
        ({"contains": [], "equals": "chat|le chat"}, "Le Chat.", "Le chat noir", "is not chat or le chat"),
        ({"ends_with": "!|?"}, "Le chat\u202f!", "Le chat.", "does not end with ! or ?"),
        ({"ends_with": "..."}, "Le chat…", "Le chat.", "does not end with ..."),
        ({"not_ends_with": "."}, "Le chat est là", "Le chat est là.", "ends with ."),
        ({"upper": True, "contains": ["été"]}, "C'EST L'ETE.", "C'est l'été.", "is not all capitals"),
        ({"quote_pairs": [1]}, "Le « chat » est là.", "Le chat est là.", "has 0 double quotation marks, not 2"),
        ({"quote_pairs": [1, 2]}, 'Le "chat" est là.', 'Le "chat est là.', "has 1 double quotation marks, not 2 or 4"),
        ({}, "Le chat est là.", "Chat", "is too short: 4 characters for 16"),
        ({}, "Le chat est là.", "Le chat est là, " * 2 + "il dort sur le lit.", "is too long: 51 characters for 16"),
        ({}, "Le chat, le chat.", "Le chat, le chat, le chat.", "repeats le chat"),
    ],
)
def test_each_check_passes_and_fails(checks: dict[str, object], good: str, bad: str, problem: str) -> None:
    case = Case.model_validate({"source": "The cat is here.", "contains": ["chat"]} | checks)
    assert check(case, good) == []
    assert check(case, bad) == [problem]


@pytest.mark.parametrize("nothing", ["", " \n", "\u00a0"])
def test_nothing_is_a_failure(nothing: str) -> None:
    assert check(_case(), nothing) == ["is empty"]


@pytest.mark.parametrize(
    ("piece", "good", "bad"),
    [
        ("{name}", "Le chat {name}", "Le chat {Name}"),
        ("{name}", "Le chat {name}", "Le chat {name} {name}"),
        ("%s", "Le chat %s", "Le chat %sa"),
        ("$HOME", "Le chat $HOME", "Le chat $HOMES"),
        ("https://example.org/a", "Le chat https://example.org/a.", "Le chat https://example.org/ab"),
        ("愛", "Le chat 愛", "Le chat 爱"),
        ("Zoë", "Le chat de Zoe\u0308", "Le chat de Zoe"),
    ],
)
def test_verbatim_pieces_stay_as_they_are(piece: str, good: str, bad: str) -> None:
    case = _case(f"The cat {piece}", verbatim=[piece])
    assert check(case, good) == []
    assert [problem.startswith(f"has {piece} ") for problem in check(case, bad)] == [True]


@pytest.mark.parametrize(
    ("number", "good", "bad"),
    [
        (
            "1,234.56",
            ["1 234,56", "1\u202f234,56", "1\u00a0234.56", "1234,56", "1.234,56", "1,234.56"],
            ["1 234", "123456"],
        ),
        ("1,250", ["1 250", "1250", "1.250"], ["1 251", "11 250", "1 2501", "125", "1,250,000"]),
        ("2.50", ["2,50 €", "2 € 50", "2€50", "2 euros 50"], ["2 €", "2,5 €", "2,505"]),
        ("20", ["$20", "20\u00a0$", "20 dollars", "20, peut-être"], ["200", "20,5", "1,20", "vingt"]),
        ("1,000,000", ["1 000 000", "1000000"], ["1 000"]),
    ],
)
def test_numbers_may_be_written_the_french_way(number: str, good: list[str], bad: list[str]) -> None:
    case = _case(f"The cat costs {number} here", numbers=[number])
    for written in good:
        assert check(case, f"Le chat coûte {written}.") == [], written
    for written in bad:
        assert check(case, f"Le chat coûte {written}.") == [f"lacks the number {number}"], written


@pytest.fixture(scope="module")
def cases() -> Cases:
    return load_cases(cases_path(Direction(source="en", target="fr")))


def test_the_categories_that_come_with_the_trainer(cases: Cases) -> None:
    assert len(cases) == 20
    assert all(12 <= len(members) <= 20 for members in cases.values())


def test_no_case_passes_on_nothing_or_on_another_sentence(cases: Cases) -> None:
    everything = list(chain.from_iterable(cases.values()))
    for wrong in ("", UNRELATED, UNRELATED.upper()):
        assert [case.source for case in everything if not check(case, wrong)] == []


def test_no_case_passes_on_a_copy_of_its_source_unless_that_is_the_point(cases: Cases) -> None:
    for category, members in cases.items():
        copied = [case.source for case in members if not check(case, case.source)]
        assert copied == ([case.source for case in members] if category == "already French" else [])


def test_each_case_can_be_passed(cases: Cases) -> None:
    for case in chain.from_iterable(cases.values()):
        assert case.example is not None, case.source
        for good in (case.example, *(case.equals or ())):
            assert check(case, good) == [], case.source


@pytest.mark.parametrize("path", sorted(CASES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_files_of_cases_are_well_formed_and_have_no_source_twice(path: Path) -> None:
    sources = [case.source for case in chain.from_iterable(load_cases(path).values())]
    assert len(sources) == len({*sources}) >= 150


def test_languages_without_cases() -> None:
    with pytest.raises(ValueError, match="no robustness cases for en-xx"):
        cases_path(Direction(source="en", target="xx"))


@pytest.mark.parametrize(
    ("checks", "problem"),
    [
        ({"contains": []}, "give contains or equals"),
        ({"contains": ["chat|"]}, r"contains\.0\.1"),
        ({"contains": ["*"]}, r"contains\.0\.0"),
        ({"contain": ["chat"]}, r"contain\n +Extra inputs"),
        ({"verbatim": ["{d}"]}, r"\{d\} is not in the source"),
        ({"verbatim": ["her"]}, "her is not in the source"),
        ({"numbers": ["3"]}, "3 is not in the source"),
        ({"numbers": ["1,2"]}, "1,2 is not a number"),
    ],
)
def test_a_case_that_tests_nothing_or_what_is_not_there_is_refused(checks: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Case.model_validate({"source": "The cat is here.", "contains": ["chat"]} | checks)


PETS: Cases = {
    "one word": (_case("cat"), _case("tomcat")),
    "tags": (_case("The <b>cat</b> | {0}", verbatim=["<b>", "</b>", "{0}"]),),
}


def _translate(sources: list[str]) -> list[str]:
    return [{"cat": "chat", "tomcat": "chien"}.get(source, "Le chat\n*brut* | $0") for source in sources]


def test_run_counts_by_category_and_keeps_the_failures() -> None:
    calls: list[list[str]] = []

    def translate(sources: list[str]) -> list[str]:
        calls.append(sources)
        return _translate(sources)

    words, tags = run(PETS, translate)
    assert calls == [["cat", "tomcat", "The <b>cat</b> | {0}"]]
    assert (words.category, words.passed, words.total) == ("one word", 1, 2)
    assert words.failures == ((PETS["one word"][1], "chien", ["lacks chat"]),)
    assert (tags.category, tags.passed, tags.total) == ("tags", 0, 1)
