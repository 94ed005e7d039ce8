"""The asynchronous client."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Self, Unpack, overload

import httpx
from httpx_sse import aconnect_sse

from .events import Detected, Event, Language, Options, Translation
from .live import AsyncLive
from .live_events import LiveOptions
from .resume import DEFAULT_URL, FAILURES, RETRIES, TIMEOUT, BaseClient, T, check, decoded, translations


class AsyncClient(BaseClient):
    """The same as `Client`, for asyncio."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout: httpx.Timeout | float = TIMEOUT,
        retries: int = RETRIES,
    ) -> None:
        super().__init__(url, api_key, retries)
        self._http = httpx.AsyncClient(base_url=self.url, timeout=timeout)

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
        return AsyncLive(self.url, self._live_start(source, target, options), self._retries)

    async def languages(self) -> list[Language]:
        """Return the languages of the server. Raises `ClientError`."""
        return await self._asked("GET", "/languages", None, list[Language])

    async def detect(self, text: str) -> list[Detected]:
        """Return the languages that the text may be in, the most probable first. Raises `ClientError`."""
        return await self._asked("POST", "/detect", self._detection_body(text), list[Detected])

    async def _asked(self, method: str, path: str, body: object, kind: type[T]) -> T:
        retries = self._new_retries()
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
