"""Changed pairs are as true as the pairs they come from, and drawn with the shares of the config."""

import re
from collections import Counter

import numpy as np
import pytest

from model.checkpoint_config import Direction
from model.training.augment import KINDS, Augmenter, find_names
from model.training.config import AugmentConfig
from model.training.corpora import Pair

ENGLISH_FRENCH = Direction(source="en", target="fr")
PAIR = Pair("Tom saw 12 cats.", "Tom a vu 12 chats.")


def _changed(kind: str, pair: Pair, times: int = 1, direction: Direction = ENGLISH_FRENCH) -> list[Pair]:
    """Return the changed pairs, as often as the kind applies."""
    augmenter = Augmenter(AugmentConfig.model_validate({kind: 1.0}), direction, frozenset({"Tom", "Anna"}))
    random = np.random.default_rng(1)
    changed = (augmenter.change(pair, augmenter.draw(random), random) for _ in range(times))
    return [each for each in changed if each is not None]


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("lowercase", Pair("tom saw 12 cats.", PAIR.target)),
        ("uppercase", Pair("TOM SAW 12 CATS.", "TOM A VU 12 CHATS.")),
        ("no_full_stop", Pair("Tom saw 12 cats", "Tom a vu 12 chats")),
        ("title_case", Pair("Tom Saw 12 Cats", "Tom a vu 12 chats")),
        ("target_copy", Pair(PAIR.target, PAIR.target)),
    ],
)
def test_plain_changes(kind: str, changed: Pair) -> None:
    assert _changed(kind, PAIR) == [changed]


def test_quotes_are_those_of_the_language() -> None:
    [changed] = _changed("quotes", PAIR)
    assert changed.source[1:-1] == PAIR.source
    assert changed.target == f"« {PAIR.target} »"
    french = _changed("quotes", Pair("Oui.", "Yes."), 200, Direction(source="fr", target="en"))
    sources = {"« Oui. »", "«Oui.»", '"Oui."', "“Oui.”", "'Oui.'", "‘Oui.’"}
    assert {*french} == {Pair(source, "“Yes.”") for source in sources}


def test_the_same_emoji_ends_both_sides() -> None:
    [changed] = _changed("emoji", PAIR)
    assert changed.source.removeprefix(PAIR.source) == changed.target.removeprefix(PAIR.target) != ""


def test_a_heading_in_title_case_keeps_small_words_small_or_not() -> None:
    pair = Pair("the end of a long day", "la fin d'une longue journée")
    sources = Counter(changed.source for changed in _changed("title_case", pair, times=100))
    assert sources.keys() == {"The End of a Long Day", "The End Of A Long Day"}
    assert min(sources.values()) > 30


def test_only_the_source_has_curly_apostrophes() -> None:
    assert _changed("curly_apostrophes", Pair("It's Tom's.", "C'est à Tom.")) == [Pair("It’s Tom’s.", "C'est à Tom.")]


def test_accents_are_left_out_of_the_source_alone_sometimes_with_capitals() -> None:
    changed = Counter(_changed("no_accents", Pair("Ça a été créé.", "It was created, déjà."), times=200))
    assert changed.keys() == {
        Pair("Ca a ete cree.", "It was created, déjà."),
        Pair("CA A ETE CREE.", "IT WAS CREATED, DÉJÀ."),
    }
    assert min(changed.values()) > 20
    assert _changed("no_accents", PAIR) == []


def test_names_are_words_that_both_sides_hold_and_that_stand_inside_a_sentence() -> None:
    pairs = [
        Pair("I saw Tom.", "J'ai vu Tom."),
        Pair("Attention please, Anna.", "Attention, merci, Anna."),
        Pair("in Paris and Rome and Rome", "à Paris et Rome et Rome"),
        Pair("the cat London", "le chat Londres"),
    ]
    assert find_names(pairs) == {"Tom", "Anna", "Paris"}


def test_a_shared_name_gives_way_to_the_same_word_on_both_sides() -> None:
    seen = set()
    for changed in _changed("copied_words", PAIR, times=200):
        word = changed.source.removesuffix(" saw 12 cats.")
        assert changed == Pair(f"{word} saw 12 cats.", f"{word} a vu 12 chats.")
        seen.add(word)
    for pattern in (r"https?://", r"@\w+\.", r"^\{\w+\}$", r"^%s$", r"^[A-Z][a-z]+$"):
        assert any(re.search(pattern, word) for word in seen), pattern


def test_a_shared_number_gives_way_to_another_of_as_many_digits() -> None:
    numbers = {changed.source.split()[2] for changed in _changed("numbers", PAIR, times=200)}
    assert len(numbers) > 50
    assert all(10 <= int(number) < 100 for number in numbers)
    for changed in _changed("numbers", Pair("5 cats at 5:30.", "5 chats à cinq heures et demie."), times=20):
        number = changed.source[0]
        assert changed == Pair(f"{number} cats at 5:30.", f"{number} chats à cinq heures et demie.")


def test_dates_and_prices() -> None:
    copies = _changed("dates_and_prices", PAIR, times=1000)
    prices = [(re.search(r"\$([\d,.]+)\)", c.source), re.search(r"\(([\d\s,]+)\s\$\)", c.target)) for c in copies]
    found = [(source[1], target[1]) for source, target in prices if source and target]
    assert len(found) > 10
    for source, target in found:
        assert float(source.replace(",", "")) == float(re.sub(r"\s", "", target).replace(",", "."))
    assert any(re.search(r"\(March \d+, \d{4}\)", c.source) and " mars " in c.target for c in copies)
    written = [(re.search(r"\((\d+)(?:[:.](\d\d))? ?([ap])\.?m", c.source, re.I), c.target) for c in copies]
    times = [(source, target) for source, target in written if source]
    assert len(times) > 10
    for source, target in times:
        hour = int(source[1]) % 12 + 12 * (source[3].lower() == "p")
        assert f"({hour} h{f' {source[2]}' if source[2] else ''})" in target


def test_no_apostrophes() -> None:
    pair = Pair("I can't, it's 'closed'.", "Je ne peux pas, c'est fermé.")
    assert _changed("no_apostrophes", pair) == [pair._replace(source="I cant, its 'closed'.")]
    assert _changed("no_apostrophes", PAIR) == []


@pytest.mark.parametrize(
    ("kind", "pair"),
    [
        ("uppercase", Pair("word " * 16, "mot " * 16)),
        ("title_case", Pair("Word", "Mot")),
        ("title_case", Pair("word " * 16, "mot " * 16)),
        ("title_case", Pair("see www.x.org now", "voir www.x.org")),
        ("curly_apostrophes", Pair("It is.", "C'est ça.")),
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
    assert _changed(kind, pair) == []


def _drawn(config: AugmentConfig, seed: int, times: int = 4000) -> list[list[str]]:
    augmenter = Augmenter(config, ENGLISH_FRENCH, frozenset())
    random = np.random.default_rng(seed)
    names = {kind: name for name, kind in KINDS.items()}
    return [[names[kind] for kind in augmenter.draw(random)] for _ in range(times)]


def test_shares_and_seed_decide() -> None:
    config = AugmentConfig(lowercase=0.1, emoji=0.05)
    drawn = _drawn(config, seed=1)
    counts = Counter(kind for kinds in drawn for kind in kinds)
    assert counts["lowercase"] == pytest.approx(400, rel=0.2)
    assert counts["emoji"] == pytest.approx(200, rel=0.2)
    assert counts.keys() == {"lowercase", "emoji"}
    assert _drawn(config, seed=1) == drawn
    assert _drawn(config, seed=2) != drawn
    assert not any(_drawn(AugmentConfig(), seed=1, times=100))


def test_the_first_kind_that_applies_changes_a_pair() -> None:
    config = AugmentConfig(copied_words=1.0, lowercase=1.0, numbers=1.0)
    augmenter = Augmenter(config, ENGLISH_FRENCH, frozenset())
    random = np.random.default_rng(1)
    kinds = augmenter.draw(random)
    assert kinds == [KINDS["lowercase"], KINDS["copied_words"], KINDS["numbers"]]
    assert augmenter.change(PAIR, kinds, random) == Pair("tom saw 12 cats.", PAIR.target)
    verbatim = Pair("See <b>12</b> cats.", "Voir <b>12</b> chats.")
    changed = augmenter.change(verbatim, kinds, random)
    assert changed is not None
    assert re.fullmatch(r"See <b>\d\d</b> cats\.", changed.source)
    assert augmenter.change(Pair("<i>", "<i>"), kinds, random) is None


def test_every_kind_has_a_share() -> None:
    assert list(AugmentConfig.model_fields) == list(KINDS)
