"""Signs of bad translations that need no reference."""

import pytest

from model.training.signs import count_signs, find_signs


@pytest.mark.parametrize(
    ("source", "bad", "sign", "good"),
    [
        ("The chief executive left.", "Le directeur directeur est parti.", "repeated words", "Le directeur est parti."),
        ("Two a day.", "Deux par jour par jour.", "repeated words", "Deux par jour."),
        ("We get up.", "Nous nous levons levons.", "repeated words", "Nous nous levons."),
        ("It is very, very late.", "Il est très, très tard tard.", "repeated words", "Il est très, très tard."),
        ("He does not know.", "Il le sait.", "negation on one side", "Il l'ignore, ou ne le sait pas."),
        ("I met Łukasz in Łódź.", "J'ai rencontré Lukas à Łódź.", "name lost", "J'ai rencontré Łukasz à Łódź."),
        ("In 1984 it fell.", "En 1985 il est tombé.", "numbers differ", "En 1984 il est tombé."),
    ],
)
def test_signs(source: str, bad: str, sign: str, good: str) -> None:
    assert find_signs(source, bad, ("en", "fr")) == [sign]
    assert find_signs(source, good, ("en", "fr")) == []


def test_negation_counts_in_known_languages_only() -> None:
    pairs = [("He does not know.", "Er weiß es."), ("In 1984 it fell.", "1985 fiel es.")]
    assert count_signs(pairs, ("en", "de")) == {"numbers differ": 1}
