"""Two models' translations side by side, as one HTML file without scripts that can be sent to a translator."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

from model.checkpoint_config import Direction
from model.training.adapt import Comparison

_SHOWN: Final = 30
_STYLE: Final = (
    "body{font:16px/1.5 sans-serif;margin:2rem}table{border-collapse:collapse;margin-bottom:2rem}"
    "th,td{border:1px solid #888;padding:.4rem .6rem;text-align:start;vertical-align:top}"
)


def comparison_page(comparisons: Mapping[str, Comparison], direction: Direction) -> str:
    """Return the page: the scores of each text, and thirty of its sentences with reference and both translations."""
    title = f"{direction.source} to {direction.target}: before and after"
    parts = [f"<h1>{escape(title)}</h1>"]
    for name, each in comparisons.items():
        rows = [(*pair, *both) for pair, *both in zip(each.pairs, *each.texts, strict=True)]
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
