"""Mozilla's index of Firefox's translation models: a Remote Settings collection with a record for each file.

Firefox takes the highest version of each file that its release may use. Here a version has to be complete, and records
for test versions of Firefox (a filter expression, or a version such as 3.0a1) do not count.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from model.checkpoint_config import Digest, LanguageHint, Origin
from service.hub.download import RemoteFile, decompress, download, read_json
from service.hub.errors import HubError
from service.hub.names import HubName, HubOptions, LanguageName
from service.hub.progress import Progress
from service.hub.release import Files, Listing, Release, version_key

_LICENCE: Final = "MPL-2.0"
"""The licence of Mozilla's repository of these models; the records have no field for it."""
_RELEASED: Final = re.compile(r"\d+(\.\d+)*")
_VOCABULARIES: Final = ({"vocab"}, {"srcvocab", "trgvocab"})
_READ: Final = frozenset({"model", "lex", "vocab", "srcvocab", "trgvocab"})
"""File types that a translation needs; `qualityModel` is for another purpose."""


class _Attachment(BaseModel):
    """The file of a record."""

    model_config = ConfigDict(frozen=True)

    hash: Digest
    size: int = Field(ge=0)
    location: str
    filename: str = ""
    mimetype: str = ""

    @property
    def is_compressed(self) -> bool:
        return any(name.endswith((".zst", "zstd")) for name in (self.location, self.filename, self.mimetype))


class _Record(BaseModel):
    """One file of a model."""

    model_config = ConfigDict(frozen=True)

    name: str
    source: LanguageName = Field(validation_alias="sourceLanguage")
    target: LanguageName = Field(validation_alias="targetLanguage")
    architecture: str
    version: str
    file_type: str = Field(validation_alias="fileType")
    filter_expression: str | None = None
    attachment: _Attachment
    decompressed_size: int | None = Field(default=None, validation_alias="decompressedSize")
    decompressed_hash: Digest | None = Field(default=None, validation_alias="decompressedHash")

    @property
    def is_released(self) -> bool:
        return not self.filter_expression and _RELEASED.fullmatch(self.version) is not None


class _Model(NamedTuple):
    """The records of one direction, architecture and version, by their file types."""

    source: str
    target: str
    architecture: str
    version: str
    records: Mapping[str, _Record]

    @property
    def is_complete(self) -> bool:
        return "model" in self.records and any(each <= self.records.keys() for each in _VOCABULARIES)

    @property
    def size(self) -> int:
        return sum(each.attachment.size for each in self.records.values())

    @property
    def name(self) -> HubName:
        return HubName("firefox", f"{self.source}-{self.target}")

    @property
    def revision(self) -> str:
        return f"{self.architecture}-{self.version}"


def listings(options: HubOptions) -> Sequence[Listing]:
    """List the highest version of each direction and architecture. Raises `HubError`."""
    best: dict[tuple[HubName, str], _Model] = {}
    for each in sorted(_models(options), key=_preference):
        best[each.name, each.architecture] = each
    return [
        Listing(HubName("firefox", each.name.model, each.architecture), *each[:2], each.version, each.size, _LICENCE)
        for each in best.values()
    ]


def release(name: HubName, options: HubOptions) -> Release:
    """Return the highest version of a direction; of equal versions, the smaller architecture. Raises `HubError`."""
    models = [each for each in _models(options) if each.name.model.lower() == name.model.lower()]
    if not models:
        raise HubError(
            f"{name}: Mozilla's index has no such direction; `dragoman models --available firefox` lists all"
        )
    chosen = [each for each in models if name.revision in (None, each.architecture, each.version, each.revision)]
    if not chosen:
        known = sorted({each.architecture for each in models})
        raise HubError(f"{name}: Mozilla's index has no such architecture, but {', '.join(known)}")
    model = max(chosen, key=_preference)
    origin = Origin(
        name=str(model.name),
        revision=model.revision,
        aliases=(model.architecture, model.version),
        url=options.firefox_index,
        licence=_LICENCE,
    )
    return Release(
        origin,
        model.size,
        lambda directory, progress: _fetch(model, options, directory, progress),
        LanguageHint(model.source, model.target),
    )


def _preference(model: _Model) -> tuple[tuple[int, ...], int]:
    return version_key(model.version), -model.size


def _fetch(model: _Model, options: HubOptions, directory: Path, progress: Progress) -> Files:
    """Download and unpack the files into a directory that is named after the direction."""
    base = _attachments(options)
    unpacked = directory / model.name.model
    unpacked.mkdir(exist_ok=True)
    sums = {}
    for record in model.records.values():
        attachment = record.attachment
        name = f"{record.name}{'.zst' if attachment.is_compressed else '.raw'}"
        url = urljoin(base, attachment.location)
        path = download(
            RemoteFile(name, url, attachment.size, attachment.hash, options.firefox_index), directory, progress
        )
        size, sha256 = record.decompressed_size, record.decompressed_hash
        decompress(path, unpacked / record.name, size, sha256, is_compressed=attachment.is_compressed)
        sums[record.name] = attachment.hash
    return Files(unpacked, sums)


def _attachments(options: HubOptions) -> str:
    """Return the base address of attachments: the one that the server states, or the index's directory."""
    server, found, _ = options.firefox_index.partition("/buckets/")
    if not found:
        return options.firefox_index
    content = read_json(f"{server}/")
    try:
        return str(content["capabilities"]["attachments"]["base_url"])
    except (KeyError, TypeError):
        raise HubError(f"{server}/: does not say where its attachments are") from None


def _models(options: HubOptions) -> Sequence[_Model]:
    """Read the index; return the complete released models."""
    content = read_json(options.firefox_index)
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, list):
        raise HubError(f"{options.firefox_index}: is not Mozilla's index, which has a list of records as its data")
    grouped: defaultdict[tuple[str, str, str, str], dict[str, _Record]] = defaultdict(dict)
    for record in filter(None, map(_record, data)):
        if record.is_released and record.file_type in _READ:
            grouped[record.source, record.target, record.architecture, record.version][record.file_type] = record
    models = (_Model(*key, records) for key, records in grouped.items())
    return [each for each in models if each.is_complete]


def _record(entry: Any) -> _Record | None:
    """Parse a record; None for a record of another kind, whose file is then missing."""
    try:
        return _Record.model_validate(entry)
    except ValidationError:
        return None
