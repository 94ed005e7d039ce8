"""Suggestions: better translations that people send."""

from pydantic import BaseModel, Field

from service.api.field_types import ApiKey, LanguageCode, OtherApiKey, Request


class SuggestionRequest(Request):
    """The request of LibreTranslate to store a suggestion."""

    q: str = Field(min_length=1, description="the text", examples=["I am a cat."])
    s: str = Field(min_length=1, description="its better translation", examples=["Je suis une chatte."])
    source: LanguageCode = Field(description="language code of the text; auto is accepted", examples=["en"])
    target: LanguageCode = Field(description="language code of the translation", examples=["fr"])
    api_key: ApiKey = None
    apiKey: OtherApiKey = None


class SuggestionResponse(BaseModel):
    success: bool = Field(examples=[True])
