"""The synchronous client."""

import time
from collections.abc import Generator
from types import TracebackType
from typing import Self, Unpack, overload

import httpx
from httpx_sse import connect_sse

from service.client.events import Detected, Event, Language, Options, Translation
from service.client.resume import DEFAULT_URL, FAILURES, RETRIES, TIMEOUT, Server, check, decoded, translations


class Client(Server):
    """Blocks; may be used by several threads. Close it, or use it as a context manager.

    `timeout` is httpx's: of a connection, and of a silence. `retries` are attempts without any progress.
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
        """A text, or several in one request, in their order. Raises `ClientError`."""
        last: Event | None = None
        for event in self.stream(text, source=source, target=target, **options):
            last = event
        return translations(text, last)

    def stream(
        self, text: str | list[str], *, source: str, target: str, **options: Unpack[Options]
    ) -> Generator[Event]:
        """Events as they come, the last one `Done`; close the generator to stop early. Raises `ClientError`."""
        reading = self._reading(text, source, target, options)
        while not reading.done:
            try:
                with connect_sse(
                    self._http, "POST", "/translate", json=reading.body, headers=reading.headers
                ) as connection:
                    if connection.response.is_error:
                        connection.response.read()
                    check(connection.response)
                    for received in connection.iter_sse():
                        if (event := reading.take(received)) is not None:
                            yield event
                reading.ended()
            except FAILURES as error:
                time.sleep(reading.seconds_after(error))

    def languages(self) -> list[Language]:
        """Raises `ClientError`."""
        patience = self._patience()
        while True:
            try:
                response = self._http.get("/languages")
                check(response)
                return decoded(response, list[Language])
            except FAILURES as error:
                time.sleep(patience.seconds_after(error))

    def detect(self, text: str) -> list[Detected]:
        """The languages that the text may be in, the most probable one first. Raises `ClientError`."""
        patience = self._patience()
        while True:
            try:
                response = self._http.post("/detect", json=self._about(text))
                check(response)
                return decoded(response, list[Detected])
            except FAILURES as error:
                time.sleep(patience.seconds_after(error))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
