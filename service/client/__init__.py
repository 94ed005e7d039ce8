"""A client of a Dragoman server, synchronous and asynchronous, that outlives broken connections.

    with Client("http://127.0.0.1:5000") as client:
        print(client.translate("I am a cat.", source="en", target="fr").text)
        for event in client.stream("I am a cat.", source="en", target="fr"):
            if isinstance(event, Token):
                print(event.text, end="", flush=True)

Whole translations are streams too, read to their end: a connection that breaks is resumed behind the last event that
came, and nothing is translated or told twice. Needs no other part of Dragoman, and no torch.
"""

from service.client.asynchronous import AsyncClient
from service.client.blocking import Client
from service.client.errors import Busy, ClientError, NotDragoman, Refused, Unreachable
from service.client.events import (
    Alignment,
    Candidate,
    Detected,
    Done,
    Event,
    Hypotheses,
    Language,
    Options,
    Scored,
    Segment,
    Start,
    Timings,
    Token,
    Translation,
    Usage,
)

__all__ = [
    "Alignment",
    "AsyncClient",
    "Busy",
    "Candidate",
    "Client",
    "ClientError",
    "Detected",
    "Done",
    "Event",
    "Hypotheses",
    "Language",
    "NotDragoman",
    "Options",
    "Refused",
    "Scored",
    "Segment",
    "Start",
    "Timings",
    "Token",
    "Translation",
    "Unreachable",
    "Usage",
]
