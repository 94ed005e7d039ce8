"""The servers of the comparison over HTTP: Dragoman's, LibreTranslate, and Firefox's engine as native code.

A new one is one more function and one more line in `CONTENDERS`.
"""

import json
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from service.process.interpreter import python_command

_HERE: Final = Path(__file__).parent


class Contender(NamedTuple):
    """A server, and the requests that it gets."""

    name: str
    command: Callable[[int, Path], list[str]]
    """Function of a port and an empty directory that is the server's own."""
    environment: dict[str, str]
    fields: dict[str, Any]
    """The fields of each request beside its text, the languages among them."""


class Match(NamedTuple):
    """Two servers with the same weights, Dragoman's first, that search in the same way."""

    contenders: tuple[Contender, Contender]
    copied_marks: str = ""
    """Marks that the other engine copies from the source's end; they do not count as a difference."""


def libretranslate(package: Path, python: Path, flags: Sequence[str]) -> Match:
    """LibreTranslate with an Argos package, run by a Python that has it installed.

    Raises ValueError for a file that is no Argos package.
    """
    described = _metadata(package)
    source, target = described["from_code"], described["to_code"]

    def command(port: int, directory: Path) -> list[str]:
        with zipfile.ZipFile(package) as archive:
            archive.extractall(directory)
        return [str(python), "-P", str(_HERE / "libretranslate_server.py"), str(port), str(directory)]

    # It has a name of its own for simplified Chinese, and always searches like this.
    its_fields = {"source": {"zh": "zh-Hans"}.get(source, source), "target": target}
    fields = {"source": source, "target": target, "beam_size": 4, "length_penalty": 0.2}
    its_server = Contender("libretranslate", command, {"PYTHONPATH": ""}, its_fields)
    return Match((_dragoman(package, flags, fields), its_server), copied_marks=".!?。！？")


def fxtranslate(directory: Path, python: Path, flags: Sequence[str]) -> Match:
    """Firefox's engine as native code, with the files of one direction; `python` has `fxtranslate` installed.

    Raises ValueError if the directory has not exactly one model.
    """
    names = [re.match(r"model\.([a-z]{2})([a-z]{2})\.", path.name) for path in directory.iterdir()]
    match [name for name in names if name]:
        case [found]:
            fields = {"source": found[1], "target": found[2]}
        case others:
            raise ValueError(f"{directory} has {len(others)} files like model.enpt.intgemm.alphas.bin, expected 1")

    def command(port: int, _: Path) -> list[str]:
        return [str(python), "-P", str(_HERE / "fxtranslate_server.py"), str(port), str(directory)]

    its_server = Contender("fxtranslate", command, {"PYTHONPATH": ""}, fields)
    return Match((_dragoman(directory, flags, fields), its_server))


CONTENDERS: Final[dict[str, Callable[[Path, Path, Sequence[str]], Match]]] = {
    "libretranslate": libretranslate,
    "fxtranslate": fxtranslate,
}
"""Functions of the model, of the program that runs the contender, and of the flags of Dragoman's server."""


def _metadata(package: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(package) as archive:
            names = [name for name in archive.namelist() if name.endswith("/metadata.json")]
            if len(names) != 1:
                raise ValueError(f"{package} has {len(names)} metadata.json, an Argos package 1")
            described: dict[str, Any] = json.loads(archive.read(names[0]))
            return described
    except zipfile.BadZipFile:
        raise ValueError(f"{package} is not a zip file, as Argos packages are") from None


def _dragoman(model: Path, flags: Sequence[str], fields: dict[str, Any]) -> Contender:
    def command(port: int, _: Path) -> list[str]:
        options = ["--model", str(model), "--port", str(port), "--log-level", "error", "--cache-mb", "0"]
        return python_command("-m", "service", "serve", *options, *flags)

    return Contender("dragoman", command, {}, fields)
