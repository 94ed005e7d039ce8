"""Changes to training pairs as they are read, so that a model survives text as people type it.

Each kind is a function of a pair and a random generator; it gives another pair that is as true as the first, or
nothing where it does not apply. What to copy (names, URLs, placeholders) is taught by putting it where both sides of a
pair hold the same word.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date, time, timedelta
from typing import Final, NamedTuple

import numpy as np
from babel.dates import format_date, format_skeleton, format_time
from babel.numbers import format_currency

from model.checkpoint_config import Direction
from model.training.config import AugmentConfig
from model.training.corpora import Pair

# What ends a sentence on both sides, with the space that French puts before some of it.
_FINAL: Final = re.compile(r"\s*[.!?…]+$")
_NAME: Final = re.compile(r"\b[A-Z][a-z]{2,}\b")
_NUMBER: Final = re.compile(r"(?<![\w.,:/-])\d{1,4}(?!\w|[.,:/-]\w)")
_APOSTROPHE: Final = re.compile(r"(?<=\w)['’](?=\w)")
_VERBATIM: Final = re.compile(r"[{}<>@#$%]|://|www\.")
_LONGEST_CAPITALS: Final = 15  # words; capitals take several times the tokens
_SMALL_WORDS: Final = frozenset("a an and as at but by for from in of on or the to with".split())
_EMOJI: Final = "😀 😂 😊 😍 😉 😢 😡 👍 👎 👏 🙏 💪 🎉 🔥 ❤️ ✨ 🚀 ✅ ❌ ⚠️ 📧 📅 🐱 🐶 🍕 ☕ 🌍 ☀️ 🎵 🏠".split()
_QUOTES: Final = {"fr": "« {} »", "es": "«{}»", "de": "„{}“"}
_SOURCE_QUOTES: Final = ['"{}"', "“{}”", "'{}'", "‘{}’"]
# Those of the language, as printed and as typed.
_OWN_SOURCE_QUOTES: Final = {"fr": ["« {} »", "«{}»"], "es": ["«{}»"], "de": ["„{}“", "»{}«"]}
_CURRENCIES: Final = ["USD", "EUR", "GBP"]
_TOPLEVEL: Final = "com org net fr ca io eu".split()
_PLACEHOLDERS: Final = "{NAME} {NAME} {{NAME}} %(NAME)s ${NAME} $NAME <NAME> [NAME] %s %d %1$s {}".split()
_EXTENSIONS: Final = "pdf txt csv png html zip docx py".split()


class Context(NamedTuple):
    """Everything that a change needs beside the pair."""

    random: np.random.Generator
    languages: tuple[str, str]
    names: frozenset[str]

    def choice(self, options: Sequence[str]) -> str:
        return options[int(self.random.integers(len(options)))]

    def word(self) -> str:
        """Make up a word of lower-case letters."""
        letters = self.random.integers(26, size=int(self.random.integers(3, 9)))
        return "".join(string.ascii_lowercase[i] for i in letters)


Kind = Callable[[Pair, Context], Pair | None]


def _lowercase(pair: Pair, context: Context) -> Pair | None:
    # Only the source: an answer in proper spelling is what people want. What is copied has to stay as it is.
    return None if _VERBATIM.search(pair.source) else Pair(pair.source.lower(), pair.target)


def _uppercase(pair: Pair, context: Context) -> Pair | None:
    if len(pair.source.split()) > _LONGEST_CAPITALS:
        return None
    return Pair(pair.source.upper(), pair.target.upper())


def _title_case(pair: Pair, context: Context) -> Pair | None:
    """Make a heading in Title Case, as English has them, for a target in sentence case, as French has it."""
    words = pair.source.split()
    if not 2 <= len(words) <= _LONGEST_CAPITALS or _VERBATIM.search(pair.source):
        return None
    small = _SMALL_WORDS if context.random.random() < 0.5 else frozenset[str]()
    titled = [word if i and word in small else word[:1].upper() + word[1:] for i, word in enumerate(words)]
    changed = Pair(" ".join(titled), pair.target)
    return _no_full_stop(changed, context) or changed


def _curly_apostrophes(pair: Pair, context: Context) -> Pair | None:
    # Only the source: the target keeps the one way to write them that the model learns.
    return Pair(pair.source.replace("'", "’"), pair.target) if "'" in pair.source else None


def _no_full_stop(pair: Pair, context: Context) -> Pair | None:
    changed = Pair(*(_FINAL.sub("", side) for side in pair))
    ended_both = all(len(new) < len(old) for new, old in zip(changed, pair, strict=True))
    return changed if ended_both and all(changed) else None


def _no_accents(pair: Pair, context: Context) -> Pair | None:
    """Leave out the accents of the source, in a fifth of the pairs with capitals: "ca va", "L'ETAT"."""
    letters = unicodedata.normalize("NFD", pair.source)
    source = "".join(letter for letter in letters if not unicodedata.combining(letter))
    if source == pair.source:
        return None
    changed = Pair(source, pair.target)
    return (_uppercase(changed, context) or changed) if context.random.random() < 0.2 else changed


def _no_apostrophes(pair: Pair, context: Context) -> Pair | None:
    """Leave out the apostrophes of the source, as in chats: "cant", "im", "cest"."""
    source = _APOSTROPHE.sub("", pair.source)
    return Pair(source, pair.target) if source != pair.source else None


def _quotes(pair: Pair, context: Context) -> Pair | None:
    opened = context.choice([*_SOURCE_QUOTES, *_OWN_SOURCE_QUOTES.get(context.languages[0], [])])
    return Pair(opened.format(pair.source), _QUOTES.get(context.languages[1], "“{}”").format(pair.target))


def _emoji(pair: Pair, context: Context) -> Pair | None:
    emoji = context.choice(_EMOJI)
    return Pair(f"{pair.source} {emoji}", f"{pair.target} {emoji}")


def _copied_words(pair: Pair, context: Context) -> Pair | None:
    """Put a made-up name, or something that is never translated, in the place of a name that both sides hold once."""
    shared = [name for name in _shared_once(_NAME, pair) if name in context.names]
    if not shared:
        return None
    old = context.choice(shared)
    if re.search(rf"['’]{old}", pair.target):
        return None  # "d'Anna": another word may not be elided
    new = _UNTRANSLATED[int(context.random.integers(len(_UNTRANSLATED)))](context)
    return _replace_both(_NAME, pair, old, new)


def _numbers(pair: Pair, context: Context) -> Pair | None:
    """Another number of as many digits in the place of one that both sides hold once; a year stays a year."""
    shared = _shared_once(_NUMBER, pair)
    if not shared:
        return None
    old = context.choice(shared)
    least = 10 ** (len(old) - 1) if len(old) > 1 else 2  # one of something would not be plural
    return _replace_both(_NUMBER, pair, old, str(context.random.integers(least, 10 ** len(old))))


def _dates_and_prices(pair: Pair, context: Context) -> Pair | None:
    """Write a date, a time or a price after the sentence, or alone, as each language writes it."""
    written = [_price, _price, _date, _time][int(context.random.integers(4))](context)
    if context.random.random() < 0.3:
        return Pair(*written)
    if not all(side.endswith(".") for side in pair):
        return None
    return Pair(*(f"{side[:-1]} ({extra})." for side, extra in zip(pair, written, strict=True)))


def _date(context: Context) -> list[str]:
    day = date(1950, 1, 1) + timedelta(days=int(context.random.integers(36500)))
    day = day.replace(day=max(2, day.day))  # French says "1er", which its locale data do not know
    style = context.choice(["long", "full", "MMMMd", "yMMMM", "y"])
    return [
        format_date(day, style, language) if style in ("long", "full") else format_skeleton(style, day, locale=language)
        for language in context.languages
    ]


def _time(context: Context) -> list[str]:
    """Write a time: of 12 hours in English, as people write it, and of 24 in other languages."""
    hour, minute = int(context.random.integers(24)), int(context.random.choice([0, 0, 5, 15, 30, 40, 45]))
    minutes = f"{context.choice(':.')}{minute:02}" if minute else ""
    half = context.choice([" am", " a.m.", "am", " AM"] if hour < 12 else [" pm", " p.m.", "pm", " PM"])
    english = f"{(hour - 1) % 12 + 1}{minutes}{half}"
    french = f"{hour} h {minute:02}" if minute else f"{hour} h"
    return [
        english if language == "en" else french if language == "fr" else format_time(time(hour, minute), "HH:mm")
        for language in context.languages
    ]


def _price(context: Context) -> list[str]:
    amount = int(context.random.integers(1, 10 ** int(context.random.integers(1, 6))))
    value = amount if context.random.random() < 0.6 else amount / 100
    whole = "#,##0" if value == amount else "#,##0.00"
    currency = context.choice(_CURRENCIES)
    written = []
    for language in context.languages:
        pattern = f"¤{whole}" if language == "en" else f"{whole} ¤"
        text = format_currency(value, currency, pattern, locale=language, currency_digits=False)
        # The plain symbol: French would say "$US", which a source of "$" does not tell.
        written.append(re.sub(r"[A-Z]*([$€£])[A-Z]*", r"\1", text))
    return written


def _url(context: Context) -> str:
    path = "/".join(context.word() for _ in range(int(context.random.integers(3))))
    query = f"?{context.word()[:3]}={int(context.random.integers(1000))}" if context.random.random() < 0.3 else ""
    scheme = context.choice(["https://", "http://", "https://www.", "www."])
    return f"{scheme}{context.word()}.{context.choice(_TOPLEVEL)}/{path}{query}".rstrip("/")


def _placeholder(context: Context) -> str:
    name = context.choice(["name", "user", "count", "file", "0", "1", "username", "title", context.word()])
    return context.choice(_PLACEHOLDERS).replace("NAME", name)


_UNTRANSLATED: Final[Sequence[Callable[[Context], str]]] = (
    *[lambda context: context.word().capitalize()] * 2,
    _url,
    lambda context: f"{context.word()}.{context.word()}@{context.word()}.{context.choice(_TOPLEVEL)}",
    *[_placeholder] * 2,
    lambda context: f"{context.word()}.{context.choice(_EXTENSIONS)}",
    lambda context: context.choice("@#") + context.word(),
)

KINDS: Final[dict[str, Kind]] = {
    "lowercase": _lowercase,
    "uppercase": _uppercase,
    "title_case": _title_case,
    "no_full_stop": _no_full_stop,
    "no_accents": _no_accents,
    "no_apostrophes": _no_apostrophes,
    "target_copy": lambda pair, context: Pair(pair.target, pair.target),
    "curly_apostrophes": _curly_apostrophes,
    "quotes": _quotes,
    "emoji": _emoji,
    "dates_and_prices": _dates_and_prices,
    "copied_words": _copied_words,
    "numbers": _numbers,
}


class Augmenter:
    """Changes to pairs of one direction, drawn with the shares of `config`.

    `names` are words that may be put in the place of another (`find_names`).
    """

    def __init__(self, config: AugmentConfig, direction: Direction, names: frozenset[str]) -> None:
        self._shares = [(KINDS[kind], share) for kind, share in config.model_dump().items() if share]
        self._languages = direction.codes()
        self._names = names

    def draw(self, random: np.random.Generator) -> list[Kind]:
        """Draw the kinds to try on a pair, in this order; most often none."""
        if not self._shares:
            return []
        draws = random.random(len(self._shares))
        return [kind for draw, (kind, share) in zip(draws, self._shares, strict=True) if draw < share]

    def change(self, pair: Pair, kinds: Sequence[Kind], random: np.random.Generator) -> Pair | None:
        """Return the pair as the first of `kinds` that applies changes it, or None."""
        context = Context(random, self._languages, self._names)
        changed = (kind(pair, context) for kind in kinds)
        return next((each for each in changed if each is not None), None)


def find_names(pairs: Iterable[Pair]) -> frozenset[str]:
    """Words with a capital that both sides hold, and that somewhere stand inside a sentence: not "Attention"."""
    return frozenset(
        name for pair in pairs for name in _shared_once(_NAME, pair) if re.search(rf"[a-z,] {name}\b", pair.source)
    )


def _shared_once(pattern: re.Pattern[str], pair: Pair) -> list[str]:
    sides = [Counter(pattern.findall(side)) for side in pair]
    return sorted(word for word, count in sides[0].items() if count == 1 and sides[1][word] == 1)


def _replace_both(pattern: re.Pattern[str], pair: Pair, old: str, new: str) -> Pair:
    """Replace `old` on both sides where `pattern` finds it, and nowhere else: 5 in "5 cats", not in "5:30"."""
    return Pair(*(pattern.sub(lambda found: new if found[0] == old else found[0], side) for side in pair))
