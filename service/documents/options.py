"""The options of a caller for reading a document."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The language that a document is translated into, as its format writes it, and the columns of a table."""

    target: str
    columns: tuple[str, ...] = ()
    """Names or numbers, from 1, of the columns to translate; all if there are none."""
