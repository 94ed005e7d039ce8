"""Types of the settings' values, checks whose errors are written for people, and defaults that depend on others."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator, SecretStr
from pydantic_core import PydanticCustomError
from pydantic_settings import NoDecode

from service.hub.names import HubIndex, HubName, parse_model, parse_models
from service.process import hardware

_DEVICE: Final = re.compile(r"auto|cpu|cuda(:[0-9]{1,2})?")
_ORIGIN: Final = re.compile(r"\*|(?:https?|chrome-extension|moz-extension|safari-web-extension)://[^/\s]+")
_LEAST_SECRET: Final = 16
_MOST_REPLICAS: Final = 4
"""Engines of a small model that one HTTP process feeds with texts; single sentences keep fewer busy."""

ModeName = Literal["int8", "fp32", "bf16"]


class UnusableSettingError(Exception):
    """A setting that is valid but cannot be used on this machine; the message is written for people."""


def wrong(problem: str) -> PydanticCustomError:
    """Build a validation error whose message is written for people."""
    return PydanticCustomError("wrong_setting", problem)


def _device(name: str) -> str:
    if not _DEVICE.fullmatch(name):
        raise wrong("must be auto, cpu, cuda, or the number of a GPU: cuda:0, cuda:1, ...")
    if name.startswith("cuda"):
        gpus = hardware.visible_gpus()
        if int(name.partition(":")[2] or 0) >= gpus:
            hint = "" if gpus else "; use --device cpu, or is this torch a CUDA build?"
            raise wrong(f"{name} cannot be used: PyTorch finds {_count(gpus, 'GPU')} here{hint}")
    return hardware.usable_device(name)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}" if number == 1 else f"{number or 'no'} {noun}s"


def fastest_mode(settings: dict[str, Any]) -> ModeName:
    """Choose the fastest mode of the device."""
    return "bf16" if _is_gpu(settings) else "int8"


def _long_enough(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < _LEAST_SECRET:
        raise wrong(f"must have at least {_LEAST_SECRET} characters")
    return secret


def default_replicas(settings: dict[str, Any]) -> int:
    """Choose as many replicas as there are cores for their threads, but no more than one HTTP process keeps busy."""
    if _is_gpu(settings):
        return max(1, hardware.usable_gpus()) if settings["device"] == "cuda" else 1
    threads: int = settings.get("threads", 1)
    return max(1, min(hardware.usable_cores() // threads, _MOST_REPLICAS))


def default_slots(settings: dict[str, Any]) -> int:
    """Choose the number of slots: a step of a GPU takes nearly as long with few rows as with hundreds."""
    return 512 if _is_gpu(settings) else 64


def default_waiting(settings: dict[str, Any]) -> int:
    """Choose how many segments may wait: on a GPU enough to fill all slots anew."""
    return 512 if _is_gpu(settings) else 256


def _is_gpu(settings: dict[str, Any]) -> bool:
    return str(settings.get("device")).startswith("cuda")


def _separated(value: object) -> object:
    """Split a list at its commas: flags and variables hold no JSON."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _network(value: str | IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    try:
        return ip_network(value)
    except ValueError:
        raise wrong("must be addresses or networks: 10.0.0.1, 10.0.0.0/8, ::1") from None


def _origin(value: str) -> str:
    if not _ORIGIN.fullmatch(value):
        raise wrong("must be * or origins, which have no path: https://a.example, http://127.0.0.1:8000")
    return value


def _model(value: str | Path | HubName) -> Path | HubName:
    if isinstance(value, str):
        try:
            return parse_model(value)
        except ValueError as error:
            raise wrong(str(error)) from None
    return value


def _models(value: str | Path | HubIndex | Sequence[Path | HubName]) -> Path | HubIndex | tuple[Path | HubName, ...]:
    if not isinstance(value, str):
        return value if isinstance(value, Path | HubIndex) else tuple(value)
    try:
        return parse_models(value)
    except ValueError as error:
        raise wrong(str(error)) from None


def _models_text(models: Path | HubIndex | tuple[Path | HubName, ...]) -> str:
    return str(models) if isinstance(models, Path | HubIndex) else ",".join(map(str, models))


Device = Annotated[str, AfterValidator(_device)]
Model = Annotated[Path | HubName, NoDecode, PlainValidator(_model), PlainSerializer(str, when_used="json")]
"""A checkpoint on disk, or the name of a public model."""
Models = Annotated[
    Path | HubIndex | tuple[Path | HubName, ...],
    NoDecode,
    PlainValidator(_models),
    PlainSerializer(_models_text, when_used="json"),
]

_BySeparator: Final = (NoDecode, BeforeValidator(_separated))
Memories = Annotated[tuple[str, ...], *_BySeparator]
"""Files of translation memories; one of a key begins with its label and an equals sign."""
StreamSecret = Annotated[SecretStr, AfterValidator(_long_enough)]
Networks = Annotated[tuple[Annotated[IPv4Network | IPv6Network, PlainValidator(_network)], ...], *_BySeparator]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], *_BySeparator]
