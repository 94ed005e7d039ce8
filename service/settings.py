"""Deployment settings: flags win over `DRAGOMAN_...` variables, variables over defaults.

No other module reads the environment.
"""

import difflib
import os
import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, RedisDsn, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from model.source_files import DEFAULT_MAX_MEGABYTES
from service import hardware
from service.hub.names import HubIndex, HubName, parse_model, parse_models
from service.hub.options import ARGOS_INDEX, FIREFOX_INDEX, HubOptions

_PREFIX: Final = "DRAGOMAN_"
_MEGABYTE: Final = 1_000_000
_OF_COMPOSE: Final = frozenset({"BIND", "STOP_SECONDS"})
"""Variables of the same `.env` file that docker-compose.yml itself uses."""

_DEVICE: Final = re.compile(r"auto|cpu|cuda(:[0-9]{1,2})?")
_ORIGIN: Final = re.compile(r"\*|(?:https?|chrome-extension|moz-extension|safari-web-extension)://[^/\s]+")
_INDEX: Final = re.compile(r"https?://[^\s]+")

Mode = Literal["int8", "fp32", "bf16"]

EMBEDDED_MODEL = Path(__file__).parent.parent / "model" / "pretrained" / "en-fr"


def _wrong(problem: str) -> PydanticCustomError:
    """Build a validation error whose message is written for people."""
    return PydanticCustomError("wrong_setting", problem)


def _device(name: str) -> str:
    if not _DEVICE.fullmatch(name):
        raise _wrong("must be auto, cpu, cuda, or the number of a GPU: cuda:0, cuda:1, ...")
    if name.startswith("cuda"):
        gpus = hardware.visible_gpus()
        if int(name.partition(":")[2] or 0) >= gpus:
            hint = "" if gpus else "; use --device cpu, or is this torch a CUDA build?"
            raise _wrong(f"{name} cannot be used: PyTorch finds {_count(gpus, 'GPU')} here{hint}")
    return hardware.usable_device(name)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}" if number == 1 else f"{number or 'no'} {noun}s"


_MOST_REPLICAS: Final = 4
"""Engines of a small model that one HTTP process feeds with texts; single sentences keep fewer busy."""


def bf16_on_a_gpu_else_int8(settings: dict[str, Any]) -> Mode:
    """Choose the fastest mode of the device."""
    return "bf16" if _is_gpu(settings) else "int8"


def one_per_gpu_or_up_to_four_on_the_cores(settings: dict[str, Any]) -> int:
    """Choose as many replicas as there are cores for their threads, but no more than one HTTP process keeps busy."""
    if _is_gpu(settings):
        return max(1, hardware.usable_gpus()) if settings["device"] == "cuda" else 1
    threads: int = settings.get("threads", 1)
    return max(1, min(hardware.usable_cores() // threads, _MOST_REPLICAS))


def thirty_two_on_a_gpu_else_eight(settings: dict[str, Any]) -> int:
    """Choose how many sources a step encodes: a GPU encodes many in nearly the time of one."""
    return 32 if _is_gpu(settings) else 8


def five_hundred_and_twelve_on_a_gpu_else_64(settings: dict[str, Any]) -> int:
    """Choose the number of slots: a step of a GPU takes nearly as long with few rows as with hundreds."""
    return 512 if _is_gpu(settings) else 64


def five_hundred_and_twelve_on_a_gpu_else_256(settings: dict[str, Any]) -> int:
    """Choose how many segments may wait: on a GPU enough to fill all slots anew."""
    return 512 if _is_gpu(settings) else 256


def _is_gpu(settings: dict[str, Any]) -> bool:
    return str(settings.get("device")).startswith("cuda")


class UnusableSettingError(Exception):
    """A setting that is valid but cannot be used on this machine; the message is written for people."""


def _memory(megabytes: int) -> int:
    """Check that so much memory can be used at all."""
    if megabytes > (most := hardware.usable_memory() // _MEGABYTE):
        raise _wrong(f"must be at most the {most:,} MB of memory that this server may use")
    return megabytes


def _separated(value: object) -> object:
    """Split a list at its commas: flags and variables hold no JSON."""
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


def _model(value: str | Path | HubName) -> Path | HubName:
    if isinstance(value, str):
        try:
            return parse_model(value)
        except ValueError as error:
            raise _wrong(str(error)) from None
    return value


def _index(url: str) -> str:
    if not _INDEX.fullmatch(url):
        raise _wrong("must be the address of an index: https://..., http://...")
    return url


def _models(value: str | Path | HubIndex | Sequence[Path | HubName]) -> Path | HubIndex | tuple[Path | HubName, ...]:
    if not isinstance(value, str):
        return value if isinstance(value, Path | HubIndex) else tuple(value)
    try:
        return parse_models(value)
    except ValueError as error:
        raise _wrong(str(error)) from None


def _models_text(models: Path | HubIndex | tuple[Path | HubName, ...]) -> str:
    return str(models) if isinstance(models, Path | HubIndex) else ",".join(map(str, models))


Model = Annotated[Path | HubName, NoDecode, PlainValidator(_model), PlainSerializer(str, when_used="json")]
"""A checkpoint on disk, or the name of a public model."""
Models = Annotated[
    Path | HubIndex | tuple[Path | HubName, ...],
    NoDecode,
    PlainValidator(_models),
    PlainSerializer(_models_text, when_used="json"),
]
IndexUrl = Annotated[str, AfterValidator(_index)]

_BySeparator: Final = (NoDecode, BeforeValidator(_separated))
Networks = Annotated[tuple[Annotated[IPv4Network | IPv6Network, PlainValidator(_network)], ...], *_BySeparator]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], *_BySeparator]


class AccessSettings(BaseSettings):
    """Settings of access control: keys, limits without a key, trusted proxies and origins."""

    keys: Path | None = Field(
        default=None,
        description="SQLite file of API keys, made by `dragoman keys add`. Requests then need a key.",
    )
    anonymous: bool = Field(
        default=False,
        description="With --keys: also serve requests without a key. Their limits count per client address; an IPv6 "
        "address counts as its /64 network.",
    )
    anonymous_requests_per_minute: int | None = Field(
        default=None, ge=1, description="Requests per minute of each address without a key."
    )
    anonymous_characters_per_minute: int | None = Field(
        default=None, ge=1, description="Characters per minute of each address without a key."
    )
    anonymous_streams: int | None = Field(
        default=None, ge=1, description="Concurrent streams of each address without a key."
    )
    redis_url: RedisDsn | None = Field(
        default=None,
        description="Redis server (redis://HOST:PORT/DB) in which several servers count rate limits together. "
        "Without it, each server counts its own requests.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Comma-separated addresses or networks of proxies, as 10.0.0.0/8, whose X-Forwarded-For, -Proto, "
        "-Host and -Prefix headers are trusted.",
    )
    cors_origins: Origins = Field(
        default=(),
        description="Comma-separated origins, as https://a.example, whose web pages may call the API; * allows all.",
    )


class HubSettings(BaseSettings):
    """Settings of public models by name. Hugging Face's hub has its own: `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT`, ..."""

    offline: bool = Field(
        default=False, description="Use only models that are here: nothing is downloaded, and no index is read."
    )
    argos_index: IndexUrl = Field(default=ARGOS_INDEX, description="Index of argos: models.")
    firefox_index: IndexUrl = Field(default=FIREFOX_INDEX, description="Index of firefox: models.")

    @property
    def hub_options(self) -> HubOptions:
        return HubOptions(self.offline, self.argos_index, self.firefox_index)


class Settings(AccessSettings, HubSettings):
    """The settings of one server.

    Every field is a flag (`--max-waiting 8`) and a variable (`DRAGOMAN_MAX_WAITING=8`).
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", description="Address to listen on; 0.0.0.0 listens on all.")
    port: int = Field(default=5000, ge=0, le=65535, description="TCP port to listen on; 0 lets the system choose one.")
    model: Model = Field(
        default=EMBEDDED_MODEL,
        description="Model to serve: the path of a Dragoman, Argos, CTranslate2 or Hugging Face transformers model, or "
        "the name of a public one, as Helsinki-NLP/opus-mt-en-de, argos:en-de or firefox:en-de.",
    )
    models: Models | None = Field(
        default=None,
        description="Models to serve instead of --model: paths and names with commas between them, a file with one on "
        "each line, a directory of checkpoints, or a whole index, firefox: or argos:, whose models are fetched on "
        "demand. Each model has its own engines and the name of its file. If two "
        "entries translate the same direction, the first by name is used. Entries of a directory that are added, "
        "changed or removed later are loaded, replaced or unloaded.",
    )
    on_demand: bool = Field(
        default=False,
        description="Fetch the public models of --models at the first request for them, not at the start. Their names "
        "must say their languages: argos:en-de, firefox:en-de.",
    )
    cache_limit_gb: float | None = Field(
        default=None,
        gt=0,
        description="Disk that all public models take. Above it, the least recently used ones that this server "
        "offers on demand are removed. Servers with this limit must not share the cache.",
    )
    models_poll_seconds: float = Field(
        default=5.0,
        gt=0,
        description="Interval between two scans of --models. A change takes effect when two scans agree.",
    )
    max_import_mb: int = Field(
        default=DEFAULT_MAX_MEGABYTES,
        ge=1,
        description="Size of the files of a model that has to be imported, unpacked. A larger model is refused.",
    )
    max_models_memory_mb: int | None = Field(
        default=None,
        ge=1,
        description="Resident memory of all engines together. Above it, the least recently used idle models are "
        "unloaded, and loaded again on the next request for them.",
    )
    device: Annotated[str, AfterValidator(_device)] = Field(
        default="auto",
        validate_default=True,
        description="Device of the engines: auto, cpu, cuda (replicas take the GPUs in turn) or one GPU, as cuda:1.",
    )
    mode: Mode = Field(
        default_factory=bf16_on_a_gpu_else_int8,
        description="Number format of weights and arithmetic: int8 (CPU only), fp32 or bf16.",
    )
    shortlist: bool = Field(
        default=False,
        description="Write only words that a model's lexical shortlist has for the words of the source, as Firefox "
        "does: faster, and not always the same translation. Modes int8 and fp32 on a CPU.",
    )
    cpu_variant: Literal["auto", "amx", "avx512vnni", "avxvnni", "avx2", "dotprod", "baseline"] = Field(
        default="auto",
        description="Instruction set of the C++ operators: auto is the best that runs; another one measures what an "
        "older processor would do. The translations are the same.",
    )
    threads: int = Field(default=1, ge=1, le=256, description="Threads of each engine process.")
    lend_threads: bool = Field(
        default=True,
        description="Engines without work lend their threads to the others, which makes single requests faster. With "
        "one model, in mode int8, on Linux.",
    )
    replicas: int = Field(
        default_factory=one_per_gpu_or_up_to_four_on_the_cores,
        ge=1,
        le=256,
        description="Engine processes of each model.",
    )
    slots: int = Field(
        default_factory=five_hundred_and_twelve_on_a_gpu_else_64,
        ge=1,
        le=4096,
        description="Segments that each engine decodes at once.",
    )
    max_prefill: int = Field(
        default_factory=thirty_two_on_a_gpu_else_eight,
        ge=1,
        le=256,
        description="Sources that an engine encodes in one step.",
    )
    max_waiting: int = Field(
        default_factory=five_hundred_and_twelve_on_a_gpu_else_256,
        ge=0,
        description="Segments that may wait for a slot before requests get status 429. A beam counts its width.",
    )
    cache_mb: Annotated[int, AfterValidator(_memory)] = Field(
        default=64,
        ge=0,
        description="Memory in MB for finished sentences, which equal requests get without another decode; 0 turns "
        "this off.",
    )
    max_segments_in_flight: int = Field(
        default=16, ge=1, description="Segments of one request that are decoded at once. A beam counts its width."
    )
    max_characters: int = Field(default=50_000, ge=1, description="Characters of one request, all texts together.")
    max_sentence_tokens: int | None = Field(
        default=None,
        ge=8,
        description="Tokens of a sentence; longer sentences are cut at clause marks. By default the checkpoint "
        "decides, or it is half of the model's positions. A lower limit helps models trained on short sentences.",
    )
    restore_capitals: bool = Field(
        default=True,
        description="Translate sentences written in capitals in lower case, and put the translation in capitals.",
    )
    glossaries: Path | None = Field(
        default=None,
        description="Directory of stored glossaries, which several servers may share. Without it, glossaries can only "
        "be sent with each request.",
    )
    suggestions: Path | None = Field(
        default=None,
        description="File to which better translations that people send are appended, as lines of JSON. Without it, "
        "none are taken.",
    )
    documents: Path | None = Field(
        default=None,
        description="Directory that holds documents while they are translated and until they are downloaded; it is "
        "emptied when the server starts, so no other server may use it. By default a new directory for temporary "
        "files.",
    )
    max_documents: int = Field(
        default=64,
        ge=0,
        description="Documents that are translated, wait, or are kept until they are downloaded; a caller has a "
        "quarter of them. 0 refuses all documents.",
    )
    max_document_bytes: int = Field(default=20_000_000, ge=1, description="Bytes of a document.")
    max_document_characters: int = Field(default=1_000_000, ge=1, description="Characters of text in a document.")
    document_expiry_seconds: float = Field(
        default=3600.0, gt=0, description="Time after which a translated document that nobody downloads is deleted."
    )
    max_texts: int = Field(default=1024, ge=1, description="Texts in the array of one request.")
    max_body_bytes: int = Field(default=2_000_000, ge=1, description="Bytes of a request body.")
    request_timeout_seconds: float = Field(default=120.0, gt=0, description="Deadline of a request that sets none.")
    engine_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        description="Time after which an engine that uses the processor but sends nothing is replaced. An engine that "
        "stands still is replaced after six seconds.",
    )
    drain_seconds: float = Field(default=30.0, ge=0, description="Time that running requests have after SIGTERM.")
    receive_timeout_seconds: float = Field(
        default=60.0, gt=0, description="Time that a client has to send a whole request; then it is disconnected."
    )
    send_timeout_seconds: float = Field(
        default=30.0, gt=0, description="Time for which a client may read no response data; then it is disconnected."
    )
    keep_alive_seconds: float = Field(
        default=15.0, gt=0, description="Interval between the comment lines of an idle stream."
    )
    traces: bool = Field(
        default=False,
        description="Send OpenTelemetry traces as the OTEL_... variables say. Needs `pip install 'dragoman[otel]'`.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity of the log records that are written."
    )

    @model_validator(mode="after")
    def _check_shortlist(self) -> Self:
        if self.shortlist and (self.device != "cpu" or self.mode == "bf16"):
            raise _wrong(f"shortlist: needs the mode int8 or fp32 on a CPU, not {self.mode} on {self.device}")
        return self

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        if self.models is not None and "model" in self.model_fields_set:
            raise _wrong("model and models: only one of them can be set")
        if self.on_demand and not isinstance(self.models, tuple | HubIndex):
            raise _wrong("on_demand: needs models with the names of public models")
        if self.on_demand and isinstance(self.models, tuple):
            silent = [str(each) for each in self.models if isinstance(each, HubName) and each.languages is None]
            if silent:
                raise _wrong(
                    f"on_demand: {', '.join(silent)}: the name does not say the languages, as argos:en-de does"
                )
        return self


class CommandSettings(HubSettings):
    """The variables that the commands other than `serve` and `doctor` read."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True)

    api_key: str | None = None
    """The API key that `dragoman translate` and `dragoman robustness` send."""
    keys: Path | None = None
    """The key file of `dragoman keys`; unlike in `AccessSettings`, it need not exist yet."""


def unknown_variables() -> list[str]:
    """List a problem for each `DRAGOMAN_...` variable that is no setting.

    The server starts all the same: the variable may belong to another version, or to another program.
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
