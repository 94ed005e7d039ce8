"""Argos' package index: one JSON list of packages, each with a language pair, a version and links."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from model.checkpoint_config import Digest, Origin, sha256_of
from service.hub.download import RemoteFile, download, read_json
from service.hub.errors import HubError, TemporaryHubError
from service.hub.names import HubName, HubOptions, LanguageName
from service.hub.progress import Progress
from service.hub.release import Files, Listing, Release, version_key

_SCHEMES: Final = ("https://", "http://")
"""Some packages also have links with other schemes."""


class _Package(BaseModel):
    """One package. The public index has neither sizes nor sums; a private index may have both."""

    model_config = ConfigDict(frozen=True)

    from_code: LanguageName
    to_code: LanguageName
    package_version: str
    links: tuple[str, ...]
    type: str = "translate"
    size: int | None = None
    sha256: Digest | None = None

    @property
    def name(self) -> HubName:
        return HubName("argos", f"{self.from_code}-{self.to_code}")

    @property
    def urls(self) -> list[str]:
        return [link for link in self.links if link.startswith(_SCHEMES)]


def listings(options: HubOptions) -> Sequence[Listing]:
    """List the newest package of each direction. Raises `HubError`."""
    newest: dict[HubName, _Package] = {}
    for package in _packages(options):
        best = newest.setdefault(package.name, package)
        if version_key(package.package_version) > version_key(best.package_version):
            newest[package.name] = package
    return [
        Listing(name, each.from_code, each.to_code, each.package_version, each.size, None)
        for name, each in newest.items()
    ]


def release(name: HubName, options: HubOptions) -> Release:
    """Return the newest package of a direction, or the version in the name. Raises `HubError`."""
    packages = [each for each in _packages(options) if each.name.model.lower() == name.model.lower()]
    if not packages:
        raise HubError(f"{name}: Argos' index has no such direction; `dragoman models --available argos` lists all")
    versions = sorted({each.package_version for each in packages}, key=version_key)
    chosen = [each for each in packages if each.package_version == (name.revision or versions[-1])]
    if not chosen:
        raise HubError(f"{name}: Argos' index has no such version, but {', '.join(versions)}")
    package = chosen[0]
    origin = Origin(name=str(package.name), revision=package.package_version, url=package.urls[0])
    return Release(origin, package.size, partial(_fetch, package, options))


def _fetch(package: _Package, options: HubOptions, directory: Path, progress: Progress) -> Files:
    """Download the package from the first of its links that works."""
    name = f"translate-{package.from_code}_{package.to_code}.argosmodel"
    problems: list[TemporaryHubError | HubError] = []
    for url in package.urls:
        try:
            file = RemoteFile(name, url, package.size, package.sha256, options.argos_index)
            path = download(file, directory, progress)
            return Files(path, {name: sha256_of(path)})
        except HubError as error:
            problems.append(error)
    temporary = any(isinstance(each, TemporaryHubError) for each in problems)
    raise (TemporaryHubError if temporary else HubError)("; ".join(map(str, problems)))


def _packages(options: HubOptions) -> Sequence[_Package]:
    """Read the index; entries of other kinds, such as sentence splitters, are left out."""
    content = read_json(options.argos_index)
    if not isinstance(content, list):
        raise HubError(f"{options.argos_index}: is not Argos' index, which is a list")
    found = (_package(entry) for entry in content)
    return [each for each in found if each is not None and each.type == "translate" and each.urls]


def _package(entry: Any) -> _Package | None:
    try:
        return _Package.model_validate(entry)
    except ValidationError:
        return None
