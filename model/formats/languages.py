"""The codes that models have for languages, as BCP 47's: `eng`, `eng_Latn`, `en_XX`, `zho_Hans`."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from babel.core import get_global

_LANGUAGE: Final = re.compile("[a-z]{2,3}")


def codes_of(names: Iterable[str]) -> dict[str, str]:
    """Return the model's name of each language by its code; without groups of languages, like `ROMANCE`.

    The script, or the country, is part of the code where there are several of the same language. Languages that BCP 47
    has one code for, as for `twi` and `aka`, keep the codes that they have in the model. Of what remains equal the
    first counts.
    """
    split = {name: name.replace("-", "_").split("_") for name in names}
    languages = {name: parts[0].lower() for name, parts in split.items() if _LANGUAGE.fullmatch(parts[0].lower())}
    shared = Counter(map(_alias, {*languages.values()}))
    short = {name: _alias(each) if shared[_alias(each)] == 1 else each for name, each in languages.items()}
    common = Counter(short.values())
    codes: dict[str, str] = {}
    for name, language in short.items():
        rest = [part for part in split[name][1:] if part != "XX"]
        codes.setdefault("-".join([language, *rest]) if common[language] > 1 else language, name)
    return codes


def _alias(language: str) -> str:
    """Return the code that replaces a language's, unless it is more than a language: that of `prs` is `fa_AF`."""
    alias = str(get_global("language_aliases").get(language, language))
    return alias if _LANGUAGE.fullmatch(alias) else language
