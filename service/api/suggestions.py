"""LibreTranslate's route for suggestions: better translations that people send."""

import asyncio
from typing import Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from service.api.context import CallerDependency, ServiceDependency
from service.api.openapi import CALLER_ERRORS, ErrorResponse, body_of, errors_of
from service.api.request_body import ApiKey, LanguageCode, OtherApiKey, StrictBody, parse_body
from service.stores.suggestion_store import Suggestion

router = APIRouter(tags=["translation"])

_OWN: Final = {
    403: "the server stores no suggestions, or a wrong API key",
    507: "suggestions cannot be written: disk full or read-only, or file full",
}


class SuggestionRequest(StrictBody):
    """The request of LibreTranslate to store a suggestion."""

    q: str = Field(min_length=1, description="the text", examples=["I see a cat."])
    s: str = Field(min_length=1, description="a better translation", examples=["Je vois une chatte."])
    source: LanguageCode = Field(description="language code of the text; auto is accepted", examples=["en"])
    target: LanguageCode = Field(description="language code of the translation", examples=["fr"])
    api_key: ApiKey = None
    apiKey: OtherApiKey = None


class SuggestionResponse(BaseModel):
    success: bool = Field(examples=[True])


@router.post(
    "/suggest",
    summary="Store a better translation",
    responses=errors_of(ErrorResponse, *CALLER_ERRORS, 400, 507, own=_OWN),
    openapi_extra=body_of(SuggestionRequest),
)
async def suggest(request: Request, service: ServiceDependency, caller: CallerDependency) -> SuggestionResponse:
    """Store a better translation, on a server with `--suggestions`. Its characters are charged as a translation's."""
    service.suggestions.check_enabled()
    body = await parse_body(request, SuggestionRequest, or_url=True)
    with service.choosing_model():
        source, target = service.translator.direction(body.source, body.target)
    service.translator.check_length([body.q, body.s], "q")
    async with service.access.charged(caller, len(body.q) + len(body.s)):
        await asyncio.to_thread(service.suggestions.add, Suggestion(body.q, body.s, source, target))
    return SuggestionResponse(success=True)
