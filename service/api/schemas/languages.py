"""Languages: their detection, the list of them, and the settings of a page."""

from pydantic import BaseModel, Field

from service.api.field_types import ApiKey, OtherApiKey, Request, Secret, Texts


class DetectedLanguage(BaseModel):
    language: str = Field(description="language code", examples=["en"])
    confidence: float = Field(ge=0.0, le=100.0, description="in whole per cent", examples=[97.0])


class DetectRequest(Request):
    """The request of LibreTranslate to detect a language. Unknown fields are refused, not ignored."""

    q: Texts = Field(
        description="text whose language is detected; the texts of an array are joined", examples=["I am a cat."]
    )
    api_key: ApiKey = None
    apiKey: OtherApiKey = None
    secret: Secret = None


class Language(BaseModel):
    """A language and its target languages; the language itself is one of them, for a copy."""

    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])
    targets: list[str] = Field(examples=[["en", "fr"]])
    downloadable: list[str] | None = Field(
        default=None, description="the targets whose models are downloaded at the first request", examples=[["de"]]
    )


class NamedLanguage(BaseModel):
    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])


class LanguageChoice(BaseModel):
    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(BaseModel):
    """The settings that LibreTranslate sends to its page; our page reads the limit and the default languages."""

    charLimit: int = Field(examples=[50_000])
    frontendTimeout: int = Field(
        description="milliseconds of a pause in typing before a page translates", examples=[300]
    )
    apiKeys: bool = Field(default=False, description="the server has API keys")
    keyRequired: bool = Field(default=False, description="requests without a key are refused")
    suggestions: bool = False
    filesTranslation: bool = False
    supportedFilesFormat: list[str] = []
    language: LanguageChoice
