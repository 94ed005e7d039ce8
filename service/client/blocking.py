"""The synchronous client."""

import time
from collections.abc import Generator
from types import TracebackType
from typing import Self, Unpack, overload

import httpx
from httpx_sse import connect_sse

from .events import Detected, Event, Language, Options, Translation
from .live import Live
from .live_events import LiveOptions
from .resume import DEFAULT_URL, FAILURES, RETRIES, TIMEOUT, BaseClient, T, check, decoded, translations


class Client(BaseClient):
    """A client with blocking methods; several threads may share it. Close it, or use it as a context manager.

    `timeout` is httpx's: for a connection, and for the wait between two reads. `retries` limits attempts in a
    row without progress.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout: httpx.Timeout | float = TIMEOUT,
        retries: int = RETRIES,
    ) -> None:
        super().__init__(url, api_key, retries)
        self._http = httpx.Client(base_url=self.url, timeout=timeout)

    @overload
    def translate(self, text: str, *, source: str, target: str, **options: Unpack[Options]) -> Translation: ...
    @overload
    def translate(
        self, text: list[str], *, source: str, target: str, **options: Unpack[Options]
    ) -> list[Translation]: ...
    def translate(
        self, text: str | list[str], *, source: str, target: str, **options: Unpack[Options]
    ) -> Translation | list[Translation]:
        """Translate a text, or several in one request, in their order. Raises `ClientError`."""
        last: Event | None = None
        for event in self.stream(text, source=source, target=target, **options):
            last = event
        return translations(text, last)

    def stream(
        self, text: str | list[str], *, source: str, target: str, **options: Unpack[Options]
    ) -> Generator[Event]:
        """Yield events as they arrive, at last `Done`; close the generator to stop early. Raises `ClientError`."""
        resumable = self._resumable(text, source, target, options)
        while not resumable.done:
            try:
                with connect_sse(
                    self._http, "POST", "/translate", json=resumable.body, headers=resumable.headers
                ) as connection:
                    if connection.response.is_error:
                        connection.response.read()
                    check(connection.response)
                    for received in connection.iter_sse():
                        if (event := resumable.decode(received)) is not None:
                            yield event
                resumable.check_end()
            except FAILURES as error:
                time.sleep(resumable.seconds_after(error))

    def live(self, *, source: str, target: str, **options: Unpack[LiveOptions]) -> Live:
        """Return a live session: its source grows, and its translation is never taken back."""
        return Live(self.url, self._live_start(source, target, options), self._retries)

    def languages(self) -> list[Language]:
        """Return the languages of the server. Raises `ClientError`."""
        return self._asked("GET", "/languages", None, list[Language])

    def detect(self, text: str) -> list[Detected]:
        """Return the languages that the text may be in, the most probable first. Raises `ClientError`."""
        return self._asked("POST", "/detect", self._detection_body(text), list[Detected])

    def _asked(self, method: str, path: str, body: object, kind: type[T]) -> T:
        retries = self._new_retries()
        while True:
            try:
                return decoded(self._http.request(method, path, json=body), kind)
            except FAILURES as error:
                time.sleep(retries.seconds_after(error))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
