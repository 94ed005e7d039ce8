"""The store of suggestions: better translations that people send, one JSON object a line, for the operator to read."""

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from service.errors import InsufficientStorage, SuggestionsDisabled

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 100_000_000


class Suggestion(msgspec.Struct, frozen=True):
    """A text and its better translation, with the names that LibreTranslate gives them."""

    q: str
    s: str
    source: str
    target: str


class _Line(Suggestion, frozen=True, kw_only=True):
    sent_at: datetime


class SuggestionStore:
    """The suggestions of a file that several servers may share; without a file they are refused."""

    def __init__(self, file: Path | None) -> None:
        """Create the file if needed, readable by its owner alone. Raises `OSError`."""
        self._file = file
        if file is not None:
            os.close(self._open(file))

    @property
    def is_enabled(self) -> bool:
        return self._file is not None

    def check_enabled(self) -> Path:
        """Return the file. Raises `SuggestionsDisabled` if there is none."""
        if self._file is None:
            raise SuggestionsDisabled
        return self._file

    def add(self, suggestion: Suggestion) -> None:
        """Append a suggestion. Raises `SuggestionsDisabled`, and `InsufficientStorage` on a full disk or file."""
        file = self.check_enabled()
        line = msgspec.json.encode(_Line(*msgspec.structs.astuple(suggestion), sent_at=datetime.now(UTC))) + b"\n"
        try:
            descriptor = self._open(file)
            try:
                if os.fstat(descriptor).st_size + len(line) > MOST_BYTES:
                    raise InsufficientStorage("suggestions", f"the server's file has {MOST_BYTES} bytes, the limit")
                # A single write: lines of several servers do not mix.
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            logger.error("a suggestion cannot be written", extra={"reason": str(error)})
            raise InsufficientStorage("suggestions") from None

    @staticmethod
    def _open(file: Path) -> int:
        return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
