"""The places of a glossary's terms in a translation, and the words before them that depend on them.

Pure text: a translation is the texts of its tokens, and each token has a share, the part of its attention that is on
the term in the source.
"""

import unicodedata
from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from service.text.sentences import is_unspaced

_LEAST: Final = 0.2
"""The least share of a word that translates a term; with less, no word is known to do so."""
_RELATIVE: Final = 0.5
"""The least share of its neighbours that translate the term too, relative to its own."""
_SHORT: Final = 3
"""The most letters of a word that may stand in the middle without a share: pomme de terre."""
_FREE_ENDING: Final = 3
"""The most letters at the end in which two forms of a word differ."""
_STEM: Final = 0.7
"""The part of a word that its other forms have, too, at least."""
_SAME_SHARE: Final = 0.1
"""The least share of words that are the term's translation already."""
_VOWELS: Final = frozenset("aeiouæœ")
_HEARD_OR_NOT: Final = frozenset("hy")
_BEFORE_CONSONANTS: Final = frozenset({"ce ", "ma ", "ta ", "sa "})

# Words that depend on the word behind them: one line for each set of forms, of which the model's scores choose one.
_FORMS: Final = {
    "fr": (
        "du |de la |de l'|des ",
        "au |à la |à l'|aux ",
        "le |la |l'|les ",
        "un |une |des ",
        "de |d'",
        "ce |cet |cette |ces ",
        "mon |ma |mes ",
        "ton |ta |tes ",
        "son |sa |ses ",
        "notre |nos ",
        "votre |vos ",
        "leur |leurs ",
        "quel |quelle |quels |quelles ",
        "que |qu'",
        "aucun |aucune ",
    ),
    "en": ("a |an ", "the "),
    "es": ("del |de la ", "al |a la ", "el |la ", "un |una ", "este |esta ", "ese |esa ", "nuestro |nuestra "),
    "pt": (
        "o |a ",
        "um |uma ",
        "do |da ",
        "no |na ",
        "ao |à ",
        "num |numa ",
        "pelo |pela ",
        "este |esta ",
        "esse |essa ",
        "meu |minha ",
        "seu |sua ",
    ),
    "it": (
        "il |lo |la |l'",
        "un |uno |una |un'",
        "del |dello |della |dell'",
        "al |allo |alla |all'",
        "dal |dallo |dalla |dall'",
        "nel |nello |nella |nell'",
        "sul |sullo |sulla |sull'",
        "questo |questa |quest'",
        "di |d'",
    ),
    "de": (
        "der |die |das |den |dem |des ",
        "ein |eine |einen |einem |einer |eines ",
        "kein |keine |keinen |keinem |keiner |keines ",
        "dieser |diese |dieses |diesen |diesem ",
    ),
    "nl": ("de |het ",),
}
_APOSTROPHES: Final = "'’"
_LINKS: Final = frozenset({"de", "d'", "of", "di"})
"""Words within a translation of one word: pomme de terre."""


class Word(NamedTuple):
    """Tokens `start` to `end` of a translation, and their text without white space."""

    start: int
    end: int
    text: str


class Place(NamedTuple):
    """Tokens `start` to `end` of a translation, which translate a term, and the greatest of their shares."""

    start: int
    end: int
    share: float


def words(texts: Sequence[str]) -> list[Word]:
    """Return the words and the marks of punctuation; tokens without text belong to the word behind them."""
    found: list[Word] = []
    start, text = 0, ""
    for number, piece in enumerate(texts):
        if text.strip() and piece and _begins_word(text, piece):
            found.append(Word(start, number, text.strip()))
            start, text = number, ""
            # Marks of case stand before the word.
            while start > found[-1].start + 1 and not texts[start - 1]:
                start -= 1
            found[-1] = found[-1]._replace(end=start)
        text += piece
    if text.strip():
        found.append(Word(start, len(texts), text.strip()))
    return found


def find_place(found: Sequence[Word], shares: Sequence[float], language: str) -> Place | None:
    """Return the place of the words with the greatest share: that word, and its neighbours with nearly as much.

    Words that depend on the one behind them (`dependent_word`) are no place, and do not begin one.
    """
    of_words = [max(shares[word.start : word.end]) if _is_word(word) else 0.0 for word in found]
    best = max(range(len(found)), key=of_words.__getitem__, default=None)
    if best is None or of_words[best] < _LEAST:
        return None
    enough = max(_LEAST, _RELATIVE * of_words[best])
    if any("-" in word.text for word in found[max(best - 1, 0) : best + 2]):  # e-mail
        enough /= 2
    determiners = _dependent_words(language) - _LINKS
    first, last = best, best
    for step in (-1, 1):
        number = best + step
        while 0 <= number < len(found) and not (step < 0 and _spelled(found[number]) in determiners):
            is_gap = not _is_word(found[number]) or len(found[number].text) <= _SHORT
            beyond = number + step
            if of_words[number] < enough and not (is_gap and 0 <= beyond < len(found) and of_words[beyond] >= enough):
                break
            first, last = min(first, number), max(last, number)
            number += step
    while first < best and _spelled(found[first]) in _dependent_words(language):
        first += 1
    return Place(found[first].start, found[last].end, of_words[best])


def find_written(found: Sequence[Word], shares: Sequence[float], translation: str) -> Place | None:
    """Return the place where a translation, or another form of it, is written already, if it looks at the term."""
    own = [word.text for word in words(translation)]
    places = [
        Place(found[i].start, found[i + len(own) - 1].end, max(shares[found[i].start : found[i + len(own) - 1].end]))
        for i in range(len(found) - len(own) + 1)
        if all(_is_form(word.text, other) for word, other in zip(found[i : i + len(own)], own, strict=True))
    ]
    best = max(places, key=lambda place: place.share, default=None)
    return best if best is not None and best.share >= _SAME_SHARE else None


def dependent_word(before: str, term: str, language: str) -> tuple[str, list[str]]:
    """Return the end of `before`, the text before a term, that depends on the term, and all its possible forms.

    The forms end as they stand before the term, with a space or an apostrophe; [""] if nothing there depends on it.
    """
    text = before.lower().replace("’", "'")
    matching = [
        (form, line.split("|"))
        for line in _forms(language)
        for form in line.split("|")
        if text.endswith(form if form.endswith("'") else form.rstrip())
        and not text[: len(text) - len(form.rstrip())][-1:].isalnum()
    ]
    if not matching:
        return "", [""]
    present = max((form for form, _ in matching), key=len)
    forms = list(dict.fromkeys(form for own, line in matching if own == present for form in line))
    written = before[len(before) - len(present.rstrip()) :]
    possible = [form for form in forms if _may_precede(form, term, elides=any("'" in each for each in forms))]
    if _is_dependent(term, language):
        possible = [""]
    if written[:1].isupper():
        possible = [form[:1].upper() + form[1:] for form in possible]
    return written, possible


def _may_precede(form: str, term: str, *, elides: bool) -> bool:
    """Return False for a form that is never written before a vowel or a consonant; before an h, all may be."""
    first = unicodedata.normalize("NFD", term[:1]).lower()[:1]
    if first in _HEARD_OR_NOT:
        return True
    if first not in _VOWELS:
        return not form.endswith("'") and form != "cet "
    if elides:
        return form.endswith(("'", "s ", "x ")) or form == "un "
    return form not in _BEFORE_CONSONANTS


def _is_dependent(term: str, language: str) -> bool:
    """Return True if a translation brings a word of its own of this kind: un matou."""
    first, *others = words([*term])
    return bool(others) and _spelled(first) in _dependent_words(language) - _LINKS


def agree(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return True if the new words are the old ones, or other forms of them; short words need a letter in common."""
    return len(old) == len(new) and all(
        _is_form(one, two) or (max(len(one), len(two)) <= _SHORT + 1 and not set(one).isdisjoint(two))
        for one, two in zip(old, new, strict=True)
    )


def _forms(language: str) -> Sequence[str]:
    return _FORMS.get(language.partition("-")[0], ())


def _dependent_words(language: str) -> frozenset[str]:
    return frozenset(form.strip() for line in _forms(language) for form in line.split("|"))


def _spelled(word: Word) -> str:
    return word.text.lower().replace("’", "'")


def _is_word(word: Word) -> bool:
    return any(map(str.isalnum, word.text))


def _begins_word(text: str, piece: str) -> bool:
    last, first = text[-1], piece[0]
    if first in _APOSTROPHES:  # belongs to the word before it
        return False
    return (
        first.isspace()
        or last in _APOSTROPHES
        or last.isalnum() != first.isalnum()
        or any(map(is_unspaced, last + first))
    )


def _is_form(word: str, other: str) -> bool:
    """Return True if two words are the same, or differ in a few letters at the end of a longer stem."""
    word, other = word.casefold(), other.casefold()
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))
    longest = max(len(word), len(other))
    if longest - common <= 1:
        return common >= _SHORT or word == other
    return common >= max(_SHORT + 1, _STEM * longest) and longest - common <= _FREE_ENDING
