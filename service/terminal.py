"""`dragoman translate`: pieces of text as they are generated, by an engine of our own or by a server."""

import json
from collections.abc import AsyncGenerator, Sequence

import httpx
from httpx_sse import SSEError, aconnect_sse

from service.app import build_service
from service.errors import ServiceError
from service.events import TokenGenerated
from service.settings import Settings
from service.translation import TranslationOptions


async def translate_locally(settings: Settings, texts: Sequence[str], source: str, target: str) -> AsyncGenerator[str]:
    """Start an engine, translate, stop it. Raises `ServiceError` and `CheckpointError`."""
    # Someone at a terminal reads the translation; what an engine notes in passing is for a server's log.
    service = build_service(settings.model_copy(update={"log_level": "warning", "replicas": 1}))
    service.pool.start()
    try:
        await service.pool.wait_until_started()
        for text in texts:
            translation = service.translator.start([text], source, target, TranslationOptions())
            try:
                async for events in translation.events():
                    for event in events:
                        if isinstance(event, TokenGenerated):
                            yield event.text
            finally:
                translation.close()
            yield "\n"
    finally:
        await service.pool.stop()


async def translate_remotely(url: str, texts: Sequence[str], source: str, target: str) -> AsyncGenerator[str]:
    """Ask a running server. Raises `ServiceError` with the server's message, or why there was none."""
    async with httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(10.0, read=60.0)) as client:
        for text in texts:
            body = {"q": text, "source": source, "target": target, "stream": True}
            try:
                async with aconnect_sse(client, "POST", "/translate", json=body) as stream:
                    if stream.response.is_error:
                        raise ServiceError(_refusal(await stream.response.aread(), stream.response.status_code))
                    async for event in stream.aiter_sse():
                        if not event.data:
                            continue  # httpx-sse makes an event of the keep-alive comment
                        data = event.json()
                        if event.event == "token":
                            yield data["text"]
                        elif event.event == "error":
                            raise ServiceError(data["error"])
            except (httpx.HTTPError, SSEError) as error:
                raise ServiceError(f"{url}: {error or type(error).__name__}") from None
            yield "\n"


def _refusal(body: bytes, status: int) -> str:
    """The server's own words, if it is one of ours."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return f"it does not answer like Dragoman (HTTP status {status})"
