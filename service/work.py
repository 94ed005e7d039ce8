"""What a translation consists of: segments as their models are given them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from service.engine.messages import GivenTerm
from service.registry.served_model import ServedModel
from service.text.segment import Segment, Term


class Between(NamedTuple):
    """A sentence in the language between two models, and what in it is copied; in HTML with its tags."""

    text: str
    terms: Sequence[Term]


class Work(NamedTuple):
    """A segment, the text it belongs to, its model, and its ids ([] where it is copied, not translated).

    `spans` are what its ids stand for in its sentence (`Tokenizer.spans`), if that is wanted.
    """

    text_index: int
    model: ServedModel | None
    """None where the whole text is copied, for which none is needed."""
    segment: Segment
    source_ids: list[int]
    spans: Sequence[tuple[int, int] | None] = ()
    offset: int = 0
    """Of the sentence, in the text."""
    terms: Sequence[GivenTerm] = ()
    """The terms of the segment, for the engine."""
    closing_ids: Sequence[int] = ()
    """Marks before which those are written at the latest."""
    prompt_ids: Sequence[int] = ()
    """They tell the decoder the languages."""
    forced_ids: Sequence[int] = ()
    """They begin the translation."""
    then: Callable[["Work", Between], list["Work"]] | None = None
    """A second model's work on what the first one makes of it, if that is not the end."""
