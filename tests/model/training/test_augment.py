"""Changed copies are as true as the pairs they come from, and a function of the seed."""

import re

import pytest

from model.checkpoint_config import Direction
from model.training.augment import KINDS, augment
from model.training.config import AugmentConfig
from model.training.corpora import Pair

ENGLISH_FRENCH = Direction(source="en", target="fr")
PAIR = Pair("Tom saw 12 cats.", "Tom a vu 12 chats.")
# Where names stand inside a sentence, they are known for names.
INSIDE = [Pair("I saw Tom.", "J'ai vu Tom."), Pair("I saw Anna.", "J'ai vu Anna.")]


def _copies(kind: str, pair: Pair, times: int = 1) -> list[Pair]:
    return augment([pair] * times, AugmentConfig.model_validate({kind: 1.0}), ENGLISH_FRENCH, seed=1)


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("lowercase", Pair("tom saw 12 cats.", PAIR.target)),
        ("uppercase", Pair("TOM SAW 12 CATS.", "TOM A VU 12 CHATS.")),
        ("no_full_stop", Pair("Tom saw 12 cats", "Tom a vu 12 chats")),
        ("target_copy", Pair(PAIR.target, PAIR.target)),
    ],
)
def test_plain_changes(kind: str, changed: Pair) -> None:
    assert _copies(kind, PAIR) == [changed]


def test_quotes_are_those_of_the_language() -> None:
    [changed] = _copies("quotes", PAIR)
    assert changed.source[1:-1] == PAIR.source
    assert changed.target == f"« {PAIR.target} »"


def test_the_same_emoji_ends_both_sides() -> None:
    [changed] = _copies("emoji", PAIR)
    assert changed.source.removeprefix(PAIR.source) == changed.target.removeprefix(PAIR.target) != ""


def test_a_shared_name_gives_way_to_the_same_word_on_both_sides() -> None:
    seen = set()
    copies = augment(INSIDE + 200 * [PAIR], AugmentConfig(copied_words=1.0), ENGLISH_FRENCH, seed=1)
    for changed in copies[2:]:
        word = changed.source.removesuffix(" saw 12 cats.")
        assert changed == Pair(f"{word} saw 12 cats.", f"{word} a vu 12 chats.")
        seen.add(word)
    for pattern in (r"https?://", r"@\w+\.", r"^\{\w+\}$", r"^%s$", r"^[A-Z][a-z]+$"):
        assert any(re.search(pattern, word) for word in seen), pattern


def test_a_shared_number_gives_way_to_another_of_as_many_digits() -> None:
    numbers = {changed.source.split()[2] for changed in _copies("numbers", PAIR, times=200)}
    assert len(numbers) > 50
    assert all(10 <= int(number) < 100 for number in numbers)
    for changed in _copies("numbers", Pair("5 cats at 5:30.", "5 chats à cinq heures et demie."), times=20):
        number = changed.source[0]
        assert changed == Pair(f"{number} cats at 5:30.", f"{number} chats à cinq heures et demie.")


def test_dates_and_prices() -> None:
    copies = _copies("dates_and_prices", PAIR, times=300)
    prices = [(re.search(r"\$([\d,.]+)\)", c.source), re.search(r"\(([\d\s,]+)\s\$\)", c.target)) for c in copies]
    found = [(source[1], target[1]) for source, target in prices if source and target]
    assert len(found) > 10
    for source, target in found:
        assert float(source.replace(",", "")) == float(re.sub(r"\s", "", target).replace(",", "."))
    assert any(re.search(r"\(March \d+, \d{4}\)", c.source) and " mars " in c.target for c in copies)


@pytest.mark.parametrize(
    ("kind", "pair"),
    [
        ("uppercase", Pair("word " * 16, "mot " * 16)),
        ("no_full_stop", Pair("Menu", "Menu.")),
        ("no_full_stop", Pair("...", "…")),
        ("lowercase", Pair("Hello {Name}.", "Bonjour {Name}.")),
        ("copied_words", Pair("Attention please.", "Attention, merci.")),
        ("copied_words", Pair("the house of Anna", "la maison d'Anna")),
        ("copied_words", Pair("The cat sat.", "Le chat.")),
        ("copied_words", Pair("Tom and Tom left.", "Tom et Tom sont partis.")),
        ("numbers", Pair("on the 20th of May", "le 20 mai")),
        ("numbers", Pair("version 1.2", "version 1.2")),
    ],
)
def test_nothing_where_a_kind_does_not_apply(kind: str, pair: Pair) -> None:
    assert _copies(kind, pair) == []


def test_shares_and_seed_decide() -> None:
    pairs = [Pair(f"cat {i}.", f"chat {i}.") for i in range(2000)]
    config = AugmentConfig(lowercase=0.1, emoji=0.05)
    first = augment(pairs, config, ENGLISH_FRENCH, seed=1)
    assert len(first) == pytest.approx(300, rel=0.2)
    assert augment(pairs, config, ENGLISH_FRENCH, seed=1) == first
    assert augment(pairs, config, ENGLISH_FRENCH, seed=2) != first
    assert augment(pairs, AugmentConfig(), ENGLISH_FRENCH, seed=1) == []


def test_every_kind_has_a_share() -> None:
    assert list(AugmentConfig().shares()) == list(KINDS)
