"""A checked request, and the work that it means for the models."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

from service.registry.remote_model import RemoteModel
from service.registry.served_model import ServedModel
from service.text.language_detection import Detected
from service.translation.options import TranslationOptions
from service.translation.preprocess import EncodedSegment


class Work(NamedTuple):
    """The segments of a request, made lazily: a book is not split before its first sentence is translated."""

    segments: Iterator[EncodedSegment]
    models: Collection[ServedModel]
    """The models that translate them."""


class Job(NamedTuple):
    """A checked request.

    `source` is the language of the first text; `detected` are the languages of all texts, if they were detected.
    """

    begin: Callable[[], Work]
    """Makes the work, once no model is missing. Raises `InvalidRequest`, `QueueFull` and `NotReady`."""
    texts: int
    source: str
    target: str
    options: TranslationOptions
    detected: Sequence[Detected] = ()
    pivots: Sequence[str | None] = ()
    """The pivot language of each text; () if there is none."""
    executor: Executor | None = None
    """Prepares a long text outside of the event loop; None for short texts, which are prepared in it."""
    missing: Sequence[RemoteModel] = ()
    """Models that have to be fetched first."""


class Progress(NamedTuple):
    """The progress of a translation, with times of `time.monotonic`."""

    started_at: float
    admitted_at: float | None
    """The time when the first translated segment got its slot."""
    first_token_at: float | None
    ended_at: float
    segments: int
    source_tokens: int
    generated_tokens: int
