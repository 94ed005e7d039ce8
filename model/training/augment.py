"""Changed copies of training pairs, so that a model survives text as people type it.

Each kind is a function of a pair and a random generator; it gives another pair that is as true as the first, or
nothing where it does not apply. What to copy (names, URLs, placeholders) is taught by putting it where both sides of a
pair hold the same word.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np
from babel import Locale
from babel.dates import format_date
from babel.numbers import format_currency, format_decimal

from model.manifest import Direction
from model.training.config import AugmentConfig
from model.training.corpora import Pair

# What ends a sentence on both sides, with the space that French puts before some of it.
_FINAL: Final = re.compile(r"\s*[.!?…]+$")
_NAME: Final = re.compile(r"\b[A-Z][a-z]{2,}\b")
_NUMBER: Final = re.compile(r"(?<![\w.,:/-])\d{1,4}(?!\w|[.,:/-]\w)")
_LONGEST_CAPITALS: Final = 15  # words; capitals take several times the tokens
_EMOJI: Final = "😀 😂 😊 😍 😉 😢 😡 👍 👎 👏 🙏 💪 🎉 🔥 ❤️ ✨ 🚀 ✅ ❌ ⚠️ 📧 📅 🐱 🐶 🍕 ☕ 🌍 ☀️ 🎵 🏠".split()
_QUOTES: Final = {"fr": "« {} »", "es": "«{}»", "de": "„{}“"}
_SOURCE_QUOTES: Final = ['"{}"', "“{}”", "'{}'", "‘{}’"]
_CURRENCIES: Final = ["USD", "EUR", "GBP"]
_TOPLEVEL: Final = "com org net fr ca io eu".split()
_PLACEHOLDERS: Final = "{NAME} {NAME} {{NAME}} %(NAME)s ${NAME} $NAME <NAME> [NAME] %s %d %1$s {}".split()
_EXTENSIONS: Final = "pdf txt csv png html zip docx py".split()


class Context(NamedTuple):
    """What changed copies need beside the pair."""

    random: np.random.Generator
    languages: tuple[str, str]
    names: Sequence[str]

    def choice(self, options: Sequence[str]) -> str:
        return options[int(self.random.integers(len(options)))]

    def word(self) -> str:
        """A made-up word of lower-case letters."""
        letters = self.random.integers(26, size=int(self.random.integers(3, 9)))
        return "".join(string.ascii_lowercase[i] for i in letters)


Kind = Callable[[Pair, Context], Pair | None]


def _lowercase(pair: Pair, context: Context) -> Pair | None:
    # Only the source: an answer in proper spelling is what people want.
    return Pair(pair.source.lower(), pair.target)


def _uppercase(pair: Pair, context: Context) -> Pair | None:
    if len(pair.source.split()) > _LONGEST_CAPITALS:
        return None
    return Pair(pair.source.upper(), pair.target.upper())


def _no_full_stop(pair: Pair, context: Context) -> Pair | None:
    if not all(_FINAL.search(side) for side in pair):
        return None
    return Pair(*(_FINAL.sub("", side) for side in pair))


def _target_copy(pair: Pair, context: Context) -> Pair | None:
    return Pair(pair.target, pair.target)


def _quotes(pair: Pair, context: Context) -> Pair | None:
    opened = context.choice(_SOURCE_QUOTES)
    return Pair(opened.format(pair.source), _QUOTES.get(context.languages[1], "“{}”").format(pair.target))


def _emoji(pair: Pair, context: Context) -> Pair | None:
    emoji = context.choice(_EMOJI)
    return Pair(f"{pair.source} {emoji}", f"{pair.target} {emoji}")


def _copied_words(pair: Pair, context: Context) -> Pair | None:
    """Another name, or something that is never translated, in the place of a name that both sides hold once."""
    shared = _shared_once(_NAME, pair)
    if not shared:
        return None
    make = _UNTRANSLATED[int(context.random.integers(len(_UNTRANSLATED)))]
    new = make(context)
    return _replace_both(pair, context.choice(shared), new, new)


def _numbers(pair: Pair, context: Context) -> Pair | None:
    """Another number in the place of one that both sides hold once, written as each language writes it."""
    shared = _shared_once(_NUMBER, pair)
    if not shared:
        return None
    old = context.choice(shared)
    value = int(context.random.integers(10 ** int(context.random.integers(1, 7))))
    number: float = value / 100 if context.random.random() < 0.2 else value
    source, target = (format_decimal(number, locale=language) for language in context.languages)
    return _replace_both(pair, old, source, target)


def _dates_and_prices(pair: Pair, context: Context) -> Pair | None:
    """A date or a price behind the sentence, or alone, written as each language writes it."""
    written = _price(context) if context.random.random() < 0.5 else _date(context)
    if context.random.random() < 0.3:
        return Pair(*written)
    if not all(side.endswith(".") for side in pair):
        return None
    return Pair(*(f"{side[:-1]} ({extra})." for side, extra in zip(pair, written, strict=True)))


def _date(context: Context) -> list[str]:
    day = date(1950, 1, 1) + timedelta(days=int(context.random.integers(36500)))
    style = context.choice(["long", "full", "d MMMM", "MMMM y", "y"])
    locales = [Locale.parse(language) for language in context.languages]
    return [format_date(day, _style(style, locale.language), locale=locale) for locale in locales]


def _style(style: str, language: str) -> str:
    return "MMMM d" if style == "d MMMM" and language == "en" else style


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


def _email(context: Context) -> str:
    return f"{context.word()}.{context.word()}@{context.word()}.{context.choice(_TOPLEVEL)}"


def _placeholder(context: Context) -> str:
    name = context.choice(["name", "user", "count", "file", "0", "1", "username", "title", context.word()])
    return context.choice(_PLACEHOLDERS).replace("NAME", name)


def _file(context: Context) -> str:
    return f"{context.word()}.{context.choice(_EXTENSIONS)}"


def _handle(context: Context) -> str:
    return context.choice("@#") + context.word()


def _capitalised(context: Context) -> str:
    return context.word().capitalize()


def _known_name(context: Context) -> str:
    return context.choice(context.names)


_UNTRANSLATED: Final[Sequence[Callable[[Context], str]]] = (
    _known_name, _known_name, _capitalised, _url, _email, _placeholder, _placeholder, _file, _handle,
)  # fmt: skip

KINDS: Final[dict[str, Kind]] = {
    "lowercase": _lowercase,
    "uppercase": _uppercase,
    "no_full_stop": _no_full_stop,
    "target_copy": _target_copy,
    "quotes": _quotes,
    "emoji": _emoji,
    "copied_words": _copied_words,
    "numbers": _numbers,
    "dates_and_prices": _dates_and_prices,
}


def augment(pairs: list[Pair], config: AugmentConfig, direction: Direction, seed: int) -> list[Pair]:
    """The changed copies that `config` asks for: of each kind, from about that share of `pairs`; deterministic."""
    random = np.random.default_rng([seed, len(pairs)])
    context = Context(random, (direction.source, direction.target), _names(pairs))
    copies: list[Pair] = []
    for kind, share in config.shares().items():
        chosen = np.flatnonzero(random.random(len(pairs)) < share)
        changed = (KINDS[kind](pairs[i], context) for i in chosen)
        copies += [pair for pair in changed if pair is not None]
    return copies


def _names(pairs: list[Pair]) -> list[str]:
    """Words that look like names because both sides hold them; "Alex" where there are none."""
    return sorted({name for pair in pairs for name in _shared_once(_NAME, pair)}) or ["Alex"]


def _shared_once(pattern: re.Pattern[str], pair: Pair) -> list[str]:
    sides = [Counter(pattern.findall(side)) for side in pair]
    return sorted(word for word, count in sides[0].items() if count == 1 and sides[1][word] == 1)


def _replace_both(pair: Pair, old: str, source: str, target: str) -> Pair:
    whole = re.compile(rf"\b{re.escape(old)}\b")
    return Pair(whole.sub(lambda _: source, pair.source), whole.sub(lambda _: target, pair.target))
