"""The settings of a server, and the variables of its commands.

Every field of `Settings` with a group is a flag (`--max-waiting 8`) and a variable (`DRAGOMAN_MAX_WAITING=8`).
`python -m tests.settings_copies` writes the docs' lines and deploy's from them.
"""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.hub.names import ARGOS_INDEX, FIREFOX_INDEX, HubName, HubOptions
from service.process.logs import Style
from service.settings import values
from service.settings.access import AccessSettings
from service.settings.groups import Group, setting
from service.settings.retired import refusal
from service.settings.values import (
    Device,
    Memories,
    Model,
    Models,
    ModeName,
    wrong,
)

PREFIX: Final = "DRAGOMAN_"
_OF_COMPOSE: Final = frozenset({"BIND", "STOP_SECONDS"})
"""Variables of the same `.env` file that docker-compose.yml itself uses."""
_PRETRAINED: Final = Path(__file__).parent.parent.parent / "model" / "pretrained"
EMBEDDED_MODELS: Final = (_PRETRAINED / "en-fr", _PRETRAINED / "fr-en")
EMBEDDED_MODEL: Final = EMBEDDED_MODELS[0]


class HubSettings(BaseSettings):
    """Settings of public models by name. Hugging Face's hub has its own: `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT`, ..."""

    offline: bool = setting(
        Group.SWITCHES,
        default=False,
        description="Use only models that are here: nothing is downloaded, and no index is read.",
    )
    argos_index: str = ARGOS_INDEX
    """The address of Argos' index, or of a copy; a variable only."""
    firefox_index: str = FIREFOX_INDEX
    """The address of Mozilla's index, or of a copy; a variable only."""

    @property
    def hub_options(self) -> HubOptions:
        return HubOptions(self.offline, self.argos_index, self.firefox_index)


class Settings(AccessSettings, HubSettings):
    """The settings of one server.

    Every field is a flag (`--max-waiting 8`) and a variable (`DRAGOMAN_MAX_WAITING=8`).
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = setting(Group.ADDRESS, default="127.0.0.1", description="Address to listen on; 0.0.0.0 listens on all.")
    port: int = setting(
        Group.ADDRESS, default=5000, ge=0, le=65535, description="TCP port to listen on; 0 lets the system choose one."
    )
    uds: Path | None = setting(
        Group.ADDRESS,
        default=None,
        description="Unix socket to listen on instead of a TCP port. Forwarded headers of whoever may open it are "
        "trusted.",
    )
    model: Model | None = setting(
        Group.MODELS,
        default=None,
        description="The only model, instead of --models: path of a Dragoman, Argos, CTranslate2 or Hugging Face "
        "transformers model, or the name of a public one: Helsinki-NLP/opus-mt-en-de, argos:en-de, firefox:en-de.",
    )
    models: Models = setting(
        Group.MODELS,
        default=EMBEDDED_MODELS,
        default_text="the embedded models, English to French and French to English",
        description="Several models: paths and names with commas between them, a file with one on each line, a "
        "directory, whose changes are followed, or a whole index, firefox: or argos:, whose models are fetched on "
        "demand. Of two that translate the same direction, the first by name is used.",
    )
    on_demand: bool = setting(
        Group.SWITCHES,
        default=False,
        description="Fetch the public models of --models at the first request for them. Their names must say their "
        "languages: argos:en-de, firefox:en-de.",
    )
    cache_limit_gb: float | None = setting(
        Group.MODELS,
        default=None,
        gt=0,
        description="Disk for public models. Above it, the least recently used ones that this server offers on "
        "demand are removed. Servers with this limit must not share the cache.",
    )
    max_models_memory_mb: int | None = setting(
        Group.MODELS,
        default=None,
        ge=1,
        description="Resident memory of all engines, without what all models share. Above it, the least recently used "
        "idle models are unloaded until the next request for them.",
    )
    device: Device = setting(
        Group.ENGINES,
        default="auto",
        validate_default=True,
        description="Device of the engines: auto, cpu, cuda (replicas take the GPUs in turn) or one GPU, as cuda:1.",
    )
    mode: ModeName = setting(
        Group.ENGINES,
        default_factory=values.fastest_mode,
        default_text="int8 (bf16 on a GPU)",
        description="Number format of weights and arithmetic: int8 (CPU only), fp32 or bf16.",
    )
    shortlist: bool = setting(
        Group.SWITCHES,
        default=False,
        description="Write only words of the model's lexical shortlist, as Firefox does: faster, and not always the "
        "same translation. Modes int8 and fp32 on a CPU.",
    )
    threads: int = setting(Group.ENGINES, default=1, ge=1, le=256, description="Threads of each engine process.")
    replicas: int = setting(
        Group.ENGINES,
        default_factory=values.default_replicas,
        default_text="one per core, at most 4 (one per GPU)",
        ge=1,
        le=256,
        description="Engine processes of each model.",
    )
    slots: int = setting(
        Group.ENGINES,
        default_factory=values.default_slots,
        default_text="64 (512 on a GPU)",
        ge=1,
        le=4096,
        description="Segments that each engine decodes at once.",
    )
    max_waiting: int = setting(
        Group.LIMITS,
        default_factory=values.default_waiting,
        default_text="256 (512 on a GPU)",
        ge=0,
        description="Segments that may wait for a slot before requests get status 429. A beam counts its width.",
    )
    cache_mb: int = setting(
        Group.ENGINES,
        default=64,
        ge=0,
        description="Memory for finished sentences, which equal requests get without another decode; 0 turns this off.",
    )
    max_characters: int = setting(
        Group.LIMITS, default=50_000, ge=1, description="Characters of one request, all texts together."
    )
    glossaries: Path | None = setting(
        Group.MODELS,
        default=None,
        description="Directory of stored glossaries, which several servers may share. Without it, none are stored.",
    )
    suggestions: Path | None = setting(
        Group.MODELS,
        default=None,
        description="File to which better translations that people send are appended, as lines of JSON. Without it, "
        "none are taken.",
    )
    memory: Memories = setting(
        Group.MODELS,
        default=(),
        description="Comma-separated files of translation memories (tmx, xliff, po, tsv, csv), whose sentences are "
        "returned as they stand; LABEL=FILE is for the key of this label alone. Changes are followed.",
    )
    documents: Path | None = setting(
        Group.DOCUMENTS,
        default=None,
        description="Directory that holds documents while they are translated and until they are downloaded; it is "
        "emptied when the server starts, so no other server may use it. By default a new directory for temporary "
        "files.",
    )
    max_documents: int = setting(
        Group.DOCUMENTS,
        default=64,
        ge=0,
        description="Documents that are translated, wait, or are kept until they are downloaded; a caller has a "
        "quarter of them. 0 refuses all documents.",
    )
    max_document_bytes: int = setting(Group.DOCUMENTS, default=20_000_000, ge=1, description="Bytes of a document.")
    request_timeout_seconds: float = setting(
        Group.LIMITS, default=120.0, gt=0, description="Deadline of a request that sets none."
    )
    drain_seconds: float = setting(
        Group.CONNECTIONS, default=30.0, ge=0, description="Time that running requests have after SIGTERM."
    )
    client_timeout_seconds: float = setting(
        Group.CONNECTIONS,
        default=60.0,
        gt=0,
        description="Time that a client has to send a whole request, and for which it may read no response data; then "
        "it is disconnected.",
    )
    traces: bool = setting(
        Group.SWITCHES,
        default=False,
        description="Send OpenTelemetry traces as the OTEL_... variables say. Needs `pip install '.[otel]'`.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        Group.LOGS, default="info", description="Least severity of the log records that are written."
    )
    log_format: Style = setting(
        Group.LOGS, default="auto", description="Lines of text for people, or of JSON; auto is text on a terminal only."
    )

    @model_validator(mode="before")
    @classmethod
    def _check_retired(cls, given: Any) -> Any:
        ours = (each for each in sorted(os.environ) if each.upper().startswith(PREFIX))
        if refusals := list(filter(None, map(refusal, ours))):
            raise wrong("; ".join(refusals))
        return given

    @model_validator(mode="after")
    def _check_shortlist(self) -> Self:
        if self.shortlist and (self.device != "cpu" or self.mode == "bf16"):
            raise wrong(f"shortlist: needs the mode int8 or fp32 on a CPU, not {self.mode} on {self.device}")
        return self

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        if self.model is not None and "models" in self.model_fields_set:
            raise wrong("model and models: only one of them can be set")
        if self.on_demand and (isinstance(self.models, Path) or "models" not in self.model_fields_set):
            raise wrong("on_demand: needs models with the names of public models")
        if self.on_demand and isinstance(self.models, tuple):
            silent = [str(each) for each in self.models if isinstance(each, HubName) and each.languages is None]
            if silent:
                raise wrong(f"on_demand: {', '.join(silent)}: the name does not say the languages, as argos:en-de does")
        return self


class CommandSettings(HubSettings):
    """The variables that the commands other than `serve` and `doctor` read."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    api_key: str | None = None
    """The API key that `dragoman translate` and `dragoman robustness` send."""
    keys: Path | None = None
    """The key file of `dragoman keys`; unlike in `AccessSettings`, it need not exist yet."""


def flags() -> Mapping[Group, Mapping[str, FieldInfo]]:
    """Return the settings that are flags, by group in the order of the help."""
    found: dict[Group, dict[str, FieldInfo]] = {group: {} for group in Group}
    for name, field in Settings.model_fields.items():
        if isinstance(field.json_schema_extra, dict):  # the others are variables only
            found[Group(str(field.json_schema_extra["group"]))][name] = field
    return found


def unknown_variables() -> list[str]:
    """List a problem for each `DRAGOMAN_...` variable that is no setting.

    The server starts all the same: the variable may belong to another version, or to another program.
    """
    fields = [name.upper() for name in Settings.model_fields]
    known = {*fields, *map(str.upper, CommandSettings.model_fields), *_OF_COMPOSE}
    given = (name.upper().removeprefix(PREFIX) for name in sorted(os.environ) if name.upper().startswith(PREFIX))
    problems = []
    for name in given:
        if name not in known:
            meant = "".join(f"; is it {PREFIX}{each}?" for each in difflib.get_close_matches(name, fields, n=1))
            problems.append(f"{PREFIX}{name} is no setting{meant}")
    return problems
