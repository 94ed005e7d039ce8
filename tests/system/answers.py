"""Reads responses of a server."""

import httpx


async def translate(client: httpx.AsyncClient, q: str | list[str], **options: object) -> str | list[str]:
    response = await client.post("/translate", json={"q": q, "source": "en", "target": "fr", **options})
    assert response.status_code == 200, response.text
    translated: str | list[str] = response.json()["translatedText"]
    return translated
