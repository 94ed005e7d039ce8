"""Operations: probes, and the states of models."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from service.registry.model_version import State


class ModelStatus(BaseModel):
    """The state of one model."""

    name: str = Field(description="that of its file or directory", examples=["en-fr"])
    directions: Sequence[str] = Field(description="what it translates", examples=[["en-fr"]])
    languages: Sequence[str] = Field(description="each of which it translates into every other")
    state: State
    reason: str | None = Field(default=None, description="why it failed, or could not be loaded the last time")
    memory_bytes: int = Field(description="resident memory of its engine processes now")


class Status(BaseModel):
    """The response of a probe."""

    status: str = Field(examples=["ok"])
