"""Two models' translations side by side, in figures, and as one HTML file without scripts to send to a translator."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from model.checkpoint_config import Direction
from model.training.corpora import Pair
from model.training.evaluate import Evaluation

_OWN_WORD: Final = 3
"""A word that so many units have, and no general sentence, is the owner's."""
_SHOWN: Final = 30
_STYLE: Final = (
    "body{font:16px/1.5 sans-serif;margin:2rem}table{border-collapse:collapse;margin-bottom:2rem}"
    "th,td{border:1px solid #888;padding:.4rem .6rem;text-align:start;vertical-align:top}"
)


class Comparison(NamedTuple):
    """Pairs that the model did not learn, and its translations and scores before and after."""

    pairs: list[Pair]
    before: Evaluation
    after: Evaluation
    own_words: frozenset[str]
    """Words of the target language that the owner's texts repeat, and general text does not have."""

    def figures(self) -> list[tuple[str, str, str]]:
        """Return name, value before and value after of each score, of exact matches, and of the owner's words."""
        targets = [pair.target for pair in self.pairs]
        wanted = [_words(target) & self.own_words for target in targets]

        def values(found: Evaluation) -> list[str]:
            exact = sum(map(str.__eq__, found.hypotheses, targets))
            own = sum(len(_words(text) & some) for text, some in zip(found.hypotheses, wanted, strict=True))
            return [f"{found.bleu.value:.1f}", f"{found.chrf.value:.1f}", str(exact), str(own)]

        names = ["BLEU", "chrF", "exact matches", f"your own words, of {sum(map(len, wanted))}"]
        return list(zip(names, values(self.before), values(self.after), strict=True))


def find_own_words(learned: Sequence[Pair], general: Sequence[Pair]) -> frozenset[str]:
    """Return the words that several learned translations have, and those of general text do not."""
    seen = Counter(word for pair in learned for word in _words(pair.target))
    common = {word for pair in general for word in _words(pair.target)}
    return frozenset(word for word, count in seen.items() if count >= _OWN_WORD and word not in common)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def comparison_page(comparisons: Mapping[str, Comparison], direction: Direction) -> str:
    """Return the page: the scores of each text, and thirty of its sentences with reference and both translations."""
    title = f"{direction.source} to {direction.target}: before and after"
    parts = [f"<h1>{escape(title)}</h1>"]
    for name, each in comparisons.items():
        both = zip(each.pairs, each.before.hypotheses, each.after.hypotheses, strict=True)
        rows = [(*pair, before, after) for pair, before, after in both]
        parts += [
            f"<h2>{escape(name)}</h2>",
            _table(["", "before", "after"], each.figures()),
            _table(["source", "reference", "before", "after"], rows[:_SHOWN]),
        ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [_row("th", heads), *(_row("td", cells) for cells in rows)]
    return "<table>\n" + "\n".join(lines) + "\n</table>"


def _row(tag: str, cells: Iterable[object]) -> str:
    return "<tr>" + "".join(f'<{tag} dir="auto">{escape(str(cell))}</{tag}>' for cell in cells) + "</tr>"
