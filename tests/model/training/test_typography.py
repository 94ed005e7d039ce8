"""One way to write apostrophes and spaces; the words stay."""

import pytest

from model.training.typography import tidy


@pytest.mark.parametrize(
    ("source", "target", "tidied"),
    [
        ("It’s here.", "C’est ici.", ("It's here.", "C'est ici.")),
        ("a\u00a0cat", "un\u202fchat", ("a cat", "un chat")),
        ("Why?", "Pourquoi?", ("Why?", "Pourquoi ?")),
        ("Why?!", "Pourquoi?!", ("Why?!", "Pourquoi ?!")),
        ("one; two", "un\u00a0; deux", ("one; two", "un ; deux")),
        ("Note: here", "Note: ici", ("Note: here", "Note : ici")),
        ("“Yes”", "«Oui»", ("“Yes”", "« Oui »")),
        ("“Yes!”", "«  Oui!  »", ("“Yes!”", "« Oui ! »")),
        ("(NL) Yes.", "(NL) Oui.", ("Yes.", "Oui.")),
        ("12345m The end.", "La fin.", ("The end.", "La fin.")),
        ("one \\ two", "un \\ deux", ("one two", "un deux")),
        ("— Yes.", "Oui.", ("Yes.", "Oui.")),
        ("The cat.", "le chat.", ("The cat.", "Le chat.")),
    ],
)
def test_a_pair_is_written_in_one_way(source: str, target: str, tidied: tuple[str, str]) -> None:
    assert tidy(source, target, ("en", "fr")) == tidied
    assert tidy(*tidied, ("en", "fr")) == tidied, "and stays so"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Why? Yes!", "Pourquoi ? Oui !"),
        ("— Yes.", "— Oui."),
        ("at 10:30", "à 10:30"),
        ("see http://x.org?a=1", "voir http://x.org?a=1"),
        ("iPhone users", "utilisateurs d'iPhone"),
        ("Use gzip here", "gzip est là"),
        ("the 512m dash", "le 512m plat"),
    ],
)
def test_what_is_right_already_stays(source: str, target: str) -> None:
    assert tidy(source, target, ("en", "fr")) == (source, target)


def test_spaces_before_marks_are_french_alone() -> None:
    assert tidy("Pourquoi?", "Warum?", ("fr", "de")) == ("Pourquoi ?", "Warum?")
    assert tidy("Pourquoi?", "Why?", ("fr-CA", "en")) == ("Pourquoi ?", "Why?")


def test_a_side_is_never_left_empty() -> None:
    assert tidy("(EN)", "Oui.", ("en", "fr")) == ("(EN)", "Oui.")
