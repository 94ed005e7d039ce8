"""Marian's YAML: options of a model, and vocabularies. Read as events: no tags, no aliases, no depth, only text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from model.checkpoint_config import CheckpointError
from model.formats.checked_source import read_bytes

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_options(text: str, path: Path) -> dict[str, Any]:
    """Return the options as JSON has them: numbers, booleans, texts, and lists of these. Raises `CheckpointError`."""
    return {
        name: [*map(_typed, value)] if isinstance(value, list) else _typed(value) for name, value in _pairs(text, path)
    }


def read_options_file(path: Path) -> dict[str, Any]:
    """Raises `CheckpointError`."""
    return read_options(_text(path), path)


def read_pieces(path: Path) -> dict[str, int]:
    """Return the pieces of a vocabulary and their ids. Raises `CheckpointError`."""
    pieces: dict[str, int] = {}
    for piece, number in _pairs(_text(path), path):
        if not isinstance(number, str) or not number.isascii() or not number.isdigit() or piece in pieces:
            raise CheckpointError(f"{path}: the id of {piece!r} is {number}, or it has several")
        pieces[piece] = int(number)
    return pieces


def _typed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def _pairs(text: str, path: Path) -> Iterator[tuple[str, str | list[str]]]:
    """Yield the entries of a mapping; of a value that is a list or a mapping, only the texts in it."""
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        for event in events:
            if isinstance(event, yaml.MappingStartEvent):
                break
            if isinstance(event, yaml.NodeEvent):
                raise ValueError("is not a list of names and values")
        while isinstance(name := next(events, None), yaml.ScalarEvent):
            yield name.value, _value(events)
        if not isinstance(name, yaml.MappingEndEvent | None):
            raise ValueError("is not a list of names and values")
    except (ValueError, yaml.YAMLError) as error:
        raise CheckpointError(f"{path}: {' '.join(str(error).split())}") from None


def _value(events: Iterator[yaml.Event]) -> str | list[str]:
    depth, texts = 0, []
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("has an alias, which is not supported")
        if isinstance(event, yaml.ScalarEvent):
            if depth == 0:
                return str(event.value)
            texts.append(str(event.value))
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth == 0:
            break
    return texts
