"""A client of a Dragoman server, synchronous and asynchronous, that survives broken connections.

    with Client("http://127.0.0.1:5000") as client:
        print(client.translate("I see a cat.", source="en", target="fr").text)
        for event in client.stream("I see a cat.", source="en", target="fr"):
            if isinstance(event, Token):
                print(event.text, end="", flush=True)

`client.live(...)` translates text that still grows. A whole translation is a stream too, read to its end. A broken
connection is resumed after the last event received, so no event is sent twice. The client needs no other part of
Dragoman, and no torch: the pyproject.toml beside this file installs it alone, as `dragoman_client`. For that, its
modules import one another relatively.
"""

from .clients import AsyncClient, Client
from .events import (
    Alignment,
    Busy,
    Candidate,
    ClientError,
    Detected,
    Done,
    Event,
    Hypotheses,
    Language,
    Loading,
    NotDragoman,
    Options,
    Refused,
    Scored,
    Segment,
    Start,
    Timings,
    Token,
    Translation,
    Unreachable,
    Usage,
)
from .live import AsyncLive, Commit, Draft, Ended, Kept, Live, LiveEvent, LiveOptions, Revision, Sentence

__all__ = [
    "Alignment",
    "AsyncClient",
    "AsyncLive",
    "Busy",
    "Candidate",
    "Client",
    "ClientError",
    "Commit",
    "Detected",
    "Done",
    "Draft",
    "Ended",
    "Event",
    "Hypotheses",
    "Kept",
    "Language",
    "Live",
    "LiveEvent",
    "LiveOptions",
    "Loading",
    "NotDragoman",
    "Options",
    "Refused",
    "Revision",
    "Scored",
    "Segment",
    "Sentence",
    "Start",
    "Timings",
    "Token",
    "Translation",
    "Unreachable",
    "Usage",
]
