"""The two clients: one blocks, one is for asyncio."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from types import TracebackType
from typing import Self, Unpack, overload

import httpx
from httpx_sse import aconnect_sse, connect_sse

from .events import Detected, Event, Language, Options, Translation
from .live import AsyncLive, Live, LiveOptions
from .resume import FAILURES, BaseClient, Retries, T, check, decoded, translations


class Client(BaseClient[httpx.Client]):
    """A client with blocking methods; several threads may share it. Close it, or use it as a context manager.

    `timeout` is httpx's: for a connection, and for the wait between two reads. `retries` limits attempts in a
    row without progress.
    """

    _connect = httpx.Client

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
        return Live(self.url, {"source": source, "target": target, **options, **self._key}, self._retries)

    def languages(self) -> list[Language]:
        """Return the languages of the server. Raises `ClientError`."""
        return self._asked("GET", "/languages", None, list[Language])

    def detect(self, text: str) -> list[Detected]:
        """Return the languages that the text may be in, the most probable first. Raises `ClientError`."""
        return self._asked("POST", "/detect", {"q": text, **self._key}, list[Detected])

    def _asked(self, method: str, path: str, body: object, kind: type[T]) -> T:
        retries = Retries(self.url, self._retries)
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


class AsyncClient(BaseClient[httpx.AsyncClient]):
    """The same as `Client`, for asyncio."""

    _connect = httpx.AsyncClient

    @overload
    async def translate(self, text: str, *, source: str, target: str, **options: Unpack[Options]) -> Translation: ...
    @overload
    async def translate(
        self, text: list[str], *, source: str, target: str, **options: Unpack[Options]
    ) -> list[Translation]: ...
    async def translate(
        self, text: str | list[str], *, source: str, target: str, **options: Unpack[Options]
    ) -> Translation | list[Translation]:
        """Translate a text, or several in one request, in their order. Raises `ClientError`."""
        last: Event | None = None
        async for event in self.stream(text, source=source, target=target, **options):
            last = event
        return translations(text, last)

    async def stream(
        self, text: str | list[str], *, source: str, target: str, **options: Unpack[Options]
    ) -> AsyncGenerator[Event]:
        """Yield events as they arrive, at last `Done`; close the generator to stop early. Raises `ClientError`."""
        resumable = self._resumable(text, source, target, options)
        while not resumable.done:
            try:
                async with aconnect_sse(
                    self._http, "POST", "/translate", json=resumable.body, headers=resumable.headers
                ) as connection:
                    if connection.response.is_error:
                        await connection.response.aread()
                    check(connection.response)
                    async with aclosing(connection.aiter_sse()) as received_events:
                        async for received in received_events:
                            if (event := resumable.decode(received)) is not None:
                                yield event
                resumable.check_end()
            except FAILURES as error:
                await asyncio.sleep(resumable.seconds_after(error))

    def live(self, *, source: str, target: str, **options: Unpack[LiveOptions]) -> AsyncLive:
        """Return a live session: its source grows, and its translation is never taken back."""
        return AsyncLive(self.url, {"source": source, "target": target, **options, **self._key}, self._retries)

    async def languages(self) -> list[Language]:
        """Return the languages of the server. Raises `ClientError`."""
        return await self._asked("GET", "/languages", None, list[Language])

    async def detect(self, text: str) -> list[Detected]:
        """Return the languages that the text may be in, the most probable first. Raises `ClientError`."""
        return await self._asked("POST", "/detect", {"q": text, **self._key}, list[Detected])

    async def _asked(self, method: str, path: str, body: object, kind: type[T]) -> T:
        retries = Retries(self.url, self._retries)
        while True:
            try:
                return decoded(await self._http.request(method, path, json=body), kind)
            except FAILURES as error:
                await asyncio.sleep(retries.seconds_after(error))

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
