"""Operations: probes, and the states of models."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from model.checkpoint_config import Origin
from service.registry.model_version import State


class ModelStatus(BaseModel):
    """The state of one model."""

    name: str = Field(description="that of its file or directory, or a public model's", examples=["en-fr"])
    directions: Sequence[str] = Field(description="the directions that it translates", examples=[["en-fr"]])
    languages: Sequence[str] = Field(description="each of which it translates into every other")
    state: State
    reason: str | None = Field(default=None, description="why it failed, or could not be loaded the last time")
    downloaded: float | None = Field(
        default=None, description="share of its download that is here, during the download"
    )
    memory_bytes: int = Field(description="resident memory of its engine processes now")
    shortlist: bool = Field(default=False, description="translations have only words of the model's lexical shortlist")
    origin: Origin | None = Field(default=None, description="the public model that it is, if it was downloaded by name")


class Status(BaseModel):
    """The response of a probe."""

    status: str = Field(examples=["ok"])
