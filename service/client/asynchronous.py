"""The asynchronous client."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Self, Unpack, overload

import httpx
from httpx_sse import aconnect_sse

from service.client.events import Detected, Event, Language, Options, Translation
from service.client.resume import DEFAULT_URL, FAILURES, RETRIES, TIMEOUT, Server, check, decoded, translations


class AsyncClient(Server):
    """As `Client`, for asyncio."""

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
        """A text, or several in one request, in their order. Raises `ClientError`."""
        last: Event | None = None
        async for event in self.stream(text, source=source, target=target, **options):
            last = event
        return translations(text, last)

    async def stream(
        self, text: str | list[str], *, source: str, target: str, **options: Unpack[Options]
    ) -> AsyncGenerator[Event]:
        """Events as they come, the last one `Done`; close the generator to stop early. Raises `ClientError`."""
        reading = self._reading(text, source, target, options)
        while not reading.done:
            try:
                async with aconnect_sse(
                    self._http, "POST", "/translate", json=reading.body, headers=reading.headers
                ) as connection:
                    if connection.response.is_error:
                        await connection.response.aread()
                    check(connection.response)
                    async with aclosing(connection.aiter_sse()) as received_events:
                        async for received in received_events:
                            if (event := reading.take(received)) is not None:
                                yield event
                reading.ended()
            except FAILURES as error:
                await asyncio.sleep(reading.seconds_after(error))

    async def languages(self) -> list[Language]:
        """Raises `ClientError`."""
        patience = self._patience()
        while True:
            try:
                response = await self._http.get("/languages")
                check(response)
                return decoded(response, list[Language])
            except FAILURES as error:
                await asyncio.sleep(patience.seconds_after(error))

    async def detect(self, text: str) -> list[Detected]:
        """The languages that the text may be in, the most probable one first. Raises `ClientError`."""
        patience = self._patience()
        while True:
            try:
                response = await self._http.post("/detect", json=self._about(text))
                check(response)
                return decoded(response, list[Detected])
            except FAILURES as error:
                await asyncio.sleep(patience.seconds_after(error))

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
