"""The events of a live session, in their order; `api.live` sends them."""

from msgspec import Struct


class Commit(Struct, frozen=True):
    """More of the translation, which is never taken back.

    `index` is the number of characters committed before it, `source_end` the position in the source up to which it is
    translated, and `segment` the number of its sentence.
    """

    segment: int
    index: int
    text: str
    source_end: int


class Draft(Struct, frozen=True):
    """What may follow the committed text, until the next event."""

    segment: int
    text: str


class Segment(Struct, frozen=True):
    """A finished sentence: its source and its committed translation, which the commits since the last one make up."""

    segment: int
    source: str
    text: str
    source_end: int


class Revision(Struct, frozen=True):
    """The best translation of a finished sentence, as it would have been made of the whole."""

    segment: int
    text: str


class Kept(Struct, frozen=True):
    """A correction of the source reached into what is translated and committed up to `source_end`, which stays."""

    replace_from: int
    source_end: int


class Ended(Struct, frozen=True):
    """The end of the session: all source is translated."""

    segments: int
    source_end: int
    index: int


Event = Commit | Draft | Segment | Revision | Kept | Ended
