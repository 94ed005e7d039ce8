"""The source of a live session: it grows, is corrected at its end, and loses the sentences that are finished."""

from itertools import takewhile
from typing import Final

from service.errors import InvalidRequest, TooLong
from service.live.words import word_starts

MAX_UNFINISHED_CHARACTERS: Final = 20_000
"""The most that may wait to be translated."""
_KEPT_CHARACTERS: Final = 2_000
"""The end of the finished text, which a correction may reach into."""


class LiveSource:
    """A text by the positions of its characters in the whole session, of which only the end is kept.

    `start` is where the unfinished text starts.
    """

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.text = ""
        self.final_until = start
        """The position up to which the text does not change any more."""
        self._finished = ""

    @property
    def end(self) -> int:
        """The length of the whole text."""
        return self.start + len(self.text)

    def append(self, text: str) -> None:
        """Add text at the end. Raises `TooLong`."""
        if len(self.text) + len(text) > MAX_UNFINISHED_CHARACTERS:
            raise TooLong("append", f"more than {MAX_UNFINISHED_CHARACTERS} characters wait to be translated")
        self.text += text

    def replace(self, position: int, text: str) -> int:
        """Replace all from a position on; return where the text first differs. Finished sentences stay.

        Raises `InvalidRequest` for a position that the text does not have any more, or not yet.
        """
        oldest = self.start - len(self._finished)
        if not oldest <= position <= self.end:
            raise InvalidRequest("replace_from", f"must be from {oldest}, the oldest kept position, to {self.end}")
        before = (self._finished + self.text)[position - oldest :]
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, text, strict=False)))
        position, text = position + same, text[same:]
        self.final_until = min(self.final_until, position)
        if position < self.start:
            # What was finished is in the new text, too, in other letters: as many words of it are.
            skipped = _end_of_words(text, len(word_starts(self._finished[position - oldest :])))
            self._finished = self._finished[: position - oldest] + text[:skipped]
            self.start, self.text, text = position + skipped, "", text[skipped:]
        self.text = self.text[: max(position - self.start, 0)]
        self.append(text)
        self.final_until = max(self.final_until, self.start)
        return position

    def finish(self, position: int | None = None) -> None:
        """Mark the text up to a position as final; all of it by default. Raises `InvalidRequest`."""
        if position is not None and position > self.end:
            raise InvalidRequest("final", f"the source has {self.end} characters")
        self.final_until = max(self.final_until, self.end if position is None else position)

    def drop(self, characters: int) -> None:
        """Take finished text away."""
        self._finished = (self._finished + self.text[:characters])[-_KEPT_CHARACTERS:]
        self.text = self.text[characters:]
        self.start += characters
        self.final_until = max(self.final_until, self.start)


def _end_of_words(text: str, count: int) -> int:
    """Return where the word after the first `count` words starts; the end of the text if there is none."""
    starts = word_starts(text)
    return starts[count] if count < len(starts) else len(text)
