"""The wire types of live sessions."""

from collections.abc import Mapping
from typing import TypedDict

import msgspec


class LiveOptions(TypedDict, total=False):
    """The fields of a session's first message; the API's documentation explains each."""

    latency: str
    policy: str
    words: int
    share: float
    revise: bool
    beam_size: int
    glossary: Mapping[str, str]
    glossary_id: str


class Commit(msgspec.Struct, frozen=True, tag_field="event", tag="commit"):
    """More of the translation, which is never taken back."""

    text: str
    segment: int
    index: int
    source_end: int


class Draft(msgspec.Struct, frozen=True, tag_field="event", tag="draft"):
    """What may follow the committed text, until the next event."""

    text: str
    segment: int


class Sentence(msgspec.Struct, frozen=True, tag_field="event", tag="segment"):
    """A finished sentence: its source and its committed translation."""

    source: str
    text: str
    segment: int
    source_end: int


class Revision(msgspec.Struct, frozen=True, tag_field="event", tag="revision"):
    """The best translation of a finished sentence."""

    text: str
    segment: int


class Kept(msgspec.Struct, frozen=True, tag_field="event", tag="kept"):
    """A correction reached into source whose translation is committed up to `source_end`, which stays."""

    replace_from: int
    source_end: int


class Ended(msgspec.Struct, frozen=True, tag_field="event", tag="done"):
    """The end of the session."""

    segments: int
    source_end: int
    index: int


LiveEvent = Commit | Draft | Sentence | Revision | Kept | Ended
