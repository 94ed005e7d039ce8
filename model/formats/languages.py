"""The codes that models have for languages, as BCP 47's: `eng`, `eng_Latn`, `en_XX`, `zho_Hans`."""

from collections import Counter
from collections.abc import Iterable

from babel.core import get_global


def codes_of(names: Iterable[str]) -> dict[str, str]:
    """The model's name of each language by its code.

    The script, or the country, is part of the code where there are several of the same language. Of what remains
    equal the first counts.
    """
    aliases = get_global("language_aliases")
    split = {name: name.replace("-", "_").split("_") for name in names}
    short = {name: str(aliases.get(parts[0].lower(), parts[0].lower())) for name, parts in split.items()}
    common = Counter(short.values())
    codes: dict[str, str] = {}
    for name, parts in split.items():
        rest = [part for part in parts[1:] if part != "XX"]
        code = "-".join([short[name], *rest]) if common[short[name]] > 1 else short[name]
        codes.setdefault(code, name)
    return codes
