"""Captions of what a recogniser hears: its lines on standard input, the translation on standard output.

    some-recogniser --stream | python captions.py en fr

Each line is what was heard since the last one; a line that begins with "\\r" replaces the last one, as recognisers do
that correct themselves.
"""

import sys
from threading import Thread

from service.client import Client, Commit, Sentence

with Client() as client, client.live(source=sys.argv[1], target=sys.argv[2], latency="low") as session:

    def listen() -> None:
        start = 0
        sys.stdin.reconfigure(newline="\n")
        for line in sys.stdin:
            if line.startswith("\r"):
                session.replace(start, line.strip() + " ")
            else:
                start = session.source_end
                session.append(line.strip() + " ")
        session.end()

    Thread(target=listen, daemon=True).start()
    for event in session:
        if isinstance(event, Commit):
            print(event.text, end="", flush=True)
        elif isinstance(event, Sentence):
            print(flush=True)
