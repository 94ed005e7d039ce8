"""Deployment settings: flags, then `DRAGOMAN_...`, then defaults. The only reader of the environment."""

import difflib
import os
import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, RedisDsn, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service import hardware

_PREFIX: Final = "DRAGOMAN_"
_OF_COMPOSE: Final = frozenset({"BIND", "STOP_SECONDS"})
"""In the same file `.env`, for docker-compose.yml itself."""

_DEVICE: Final = re.compile(r"auto|cpu|cuda(:[0-9]{1,2})?")
_ORIGIN: Final = re.compile(r"\*|https?://[^/\s]+")

Mode = Literal["int8", "fp32", "bf16"]

EMBEDDED_MODEL = Path(__file__).parent.parent / "model" / "pretrained" / "en-fr"


def _wrong(problem: str) -> PydanticCustomError:
    """Says in words what is allowed."""
    return PydanticCustomError("wrong_setting", problem)


def _device(name: str) -> str:
    if not _DEVICE.fullmatch(name):
        raise _wrong("must be auto, cpu, cuda, or the number of a GPU: cuda:0, cuda:1, ...")
    return hardware.usable_device(name)


def bf16_on_a_gpu_else_int8(settings: dict[str, Any]) -> Mode:
    """The fastest mode on each device."""
    return "bf16" if _is_gpu(settings) else "int8"


def one_a_gpu_or_up_to_four_on_the_cores(settings: dict[str, Any]) -> int:
    """As many as have cores for their threads; who wants more than four models in memory says so."""
    if _is_gpu(settings):
        return max(1, hardware.usable_gpus()) if settings["device"] == "cuda" else 1
    threads: int = settings.get("threads", 1)
    return max(1, min(hardware.usable_cores() // threads, 4))


def thirty_two_on_a_gpu_else_eight(settings: dict[str, Any]) -> int:
    """A GPU encodes many sources in nearly the time of one."""
    return 32 if _is_gpu(settings) else 8


def _is_gpu(settings: dict[str, Any]) -> bool:
    return str(settings.get("device")).startswith("cuda")


class UnusableSettingError(Exception):
    """A setting that is right by itself, but that cannot be used here; the message is for people."""


def _separated(value: object) -> object:
    """A list in a flag or a variable has commas, not JSON."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _network(value: str | IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    try:
        return ip_network(value)
    except ValueError:
        raise _wrong("must be addresses or networks: 10.0.0.1, 10.0.0.0/8, ::1") from None


def _origin(value: str) -> str:
    if not _ORIGIN.fullmatch(value):
        raise _wrong("must be * or origins, which have no path: https://a.example, http://127.0.0.1:8000")
    return value


_BySeparator: Final = (NoDecode, BeforeValidator(_separated))
Networks = Annotated[tuple[Annotated[IPv4Network | IPv6Network, PlainValidator(_network)], ...], *_BySeparator]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], *_BySeparator]


class AccessSettings(BaseSettings):
    """Who may ask, from where, and how much."""

    keys: Path | None = Field(
        default=None, description="SQLite file of the API keys that are asked for; `dragoman keys add` makes it"
    )
    anonymous: bool = Field(default=False, description="with keys: requests that have none are answered as well")
    anonymous_requests_per_minute: int | None = Field(
        default=None, ge=1, description="of each address without a key; an IPv6 address counts as its /64 network"
    )
    anonymous_characters_per_minute: int | None = Field(default=None, ge=1, description="of each address without a key")
    anonymous_streams: int | None = Field(
        default=None, ge=1, description="at the same time, of each address without a key"
    )
    redis_url: RedisDsn | None = Field(
        default=None,
        description="redis://HOST:PORT/DB where several servers count rate limits together; without, each for itself",
    )
    trusted_proxies: Networks = Field(
        default=(), description="addresses (10.0.0.0/8,::1) of proxies whose X-Forwarded-For is believed"
    )
    cors_origins: Origins = Field(
        default=(), description="origins (https://a.example,https://b.example) whose pages may call the API; * for all"
    )


class Settings(AccessSettings):
    """One deployment; every field is a flag (`--max-waiting 8`) and a variable (`DRAGOMAN_MAX_WAITING=8`)."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        frozen=True,
        extra="forbid",
        cli_prog_name="dragoman serve",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
    )

    host: str = Field(default="127.0.0.1", description="address to listen on; 0.0.0.0 for all")
    port: int = Field(default=5000, ge=0, le=65535, description="TCP port to listen on; 0 lets the system choose")
    model: Path = Field(
        default=EMBEDDED_MODEL, description="checkpoint: ours, or of Argos, CTranslate2 or Hugging Face's transformers"
    )
    models: Path | None = Field(
        default=None,
        description="directory of checkpoints, in the place of --model: each of its entries is served by its own "
        "engines, named as it is; of two with the same direction the first by name. What is put in, changed or removed "
        "later is loaded, replaced or unloaded",
    )
    models_poll_seconds: float = Field(
        default=5.0, gt=0, description="between two looks at the models directory; two that agree count"
    )
    max_models_memory_mb: int | None = Field(
        default=None,
        ge=1,
        description="resident memory of all engines together; over it, idle models are unloaded, the least "
        "recently used first, and loaded again when they are asked for",
    )
    device: Annotated[str, AfterValidator(_device)] = Field(
        default="auto",
        validate_default=True,
        description="where engines compute: cpu, cuda (each replica takes the next GPU in turn), cuda:1, ...",
    )
    mode: Mode = Field(
        default_factory=bf16_on_a_gpu_else_int8,
        description="how weights are stored and steps executed: int8 (cpu only), fp32, bf16",
    )
    threads: int = Field(default=1, ge=1, le=256, description="threads of each engine process")
    replicas: int = Field(
        default_factory=one_a_gpu_or_up_to_four_on_the_cores,
        ge=1,
        le=256,
        description="engine processes",
    )
    slots: int = Field(default=64, ge=1, le=4096, description="segments that each engine decodes at once")
    max_prefill: int = Field(
        default_factory=thirty_two_on_a_gpu_else_eight, ge=1, le=256, description="sources encoded per step, at most"
    )
    max_waiting: int = Field(
        default=256, ge=0, description="segments that may wait for slots before 429; beams count by width"
    )
    max_segments_in_flight: int = Field(
        default=16, ge=1, description="segments of one request decoded side by side; beams by width"
    )
    max_characters: int = Field(default=50_000, ge=1, description="characters in one request, all texts together")
    max_sentence_tokens: int | None = Field(
        default=None,
        ge=8,
        description="longer sentences are cut at clause marks; the default is what the checkpoint says, or half of the "
        "model's positions, so that a translation has room. Less helps models that were trained on short sentences",
    )
    restore_capitals: bool = Field(
        default=True, description="sentences all in capitals are translated in lower case, and answered in capitals"
    )
    glossaries: Path | None = Field(
        default=None,
        description="directory where glossaries are kept, which servers may share; without, requests bring their own",
    )
    max_texts: int = Field(default=1024, ge=1, description="texts in one request's array")
    max_body_bytes: int = Field(default=2_000_000, ge=1, description="size of a request's body")
    request_timeout_seconds: float = Field(default=120.0, gt=0, description="deadline of a request that sets none")
    engine_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        description="an engine that works and says nothing for so long is replaced; one that stands still, after six",
    )
    drain_seconds: float = Field(default=30.0, ge=0, description="time that running requests get after SIGTERM")
    receive_timeout_seconds: float = Field(
        default=60.0, gt=0, description="a connection whose request has not come whole after so long is cut"
    )
    send_timeout_seconds: float = Field(
        default=30.0, gt=0, description="a reader that takes nothing for so long is cut"
    )
    keep_alive_seconds: float = Field(default=15.0, gt=0, description="between comment lines on an idle stream")
    traces: bool = Field(
        default=False, description="send OpenTelemetry traces to where OTEL_... variables say; needs `dragoman[otel]`"
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        if self.models is not None and "model" in self.model_fields_set:
            raise _wrong("model and models: one of them says what is served, not both")
        return self


class DoctorSettings(Settings):
    """The same for `dragoman doctor`, whose name its messages have."""

    model_config = SettingsConfigDict(cli_prog_name="dragoman doctor")


class CommandSettings(BaseSettings):
    """What the other commands take from the environment."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True)

    api_key: str | None = None
    """For a server that wants one."""
    keys: Path | None = None
    """As in `AccessSettings`, where the file need not be there yet."""


def unknown_variables() -> list[str]:
    """What is wrong with variables that look like settings and are none, one by one; an empty list where all are.

    No reason to refuse to start: they may be for another version, or for a program beside this one.
    """
    fields = [name.upper() for name in Settings.model_fields]
    known = {*fields, *map(str.upper, CommandSettings.model_fields), *_OF_COMPOSE}
    given = (name.upper().removeprefix(_PREFIX) for name in sorted(os.environ) if name.upper().startswith(_PREFIX))
    problems = []
    for name in given:
        if name not in known:
            meant = "".join(f"; is it {_PREFIX}{each}?" for each in difflib.get_close_matches(name, fields, n=1))
            problems.append(f"{_PREFIX}{name} is no setting{meant}")
    return problems
