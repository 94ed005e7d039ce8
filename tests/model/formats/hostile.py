"""Checkpoints that were made to harm whoever imports them: a function for each kind, which writes it to a directory.

Each is a valid M2M100 model with one change, an Argos package, or something else in the place of a checkpoint. Code in
them, if it ever ran, would write a file `executed` beside the checkpoint.
"""

import io
import json
import os
import pickle
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file

MAX_BYTES: Final = 1_000_000_000
"""The limit of an import here."""
EXECUTED: Final = "executed"
_WEIGHTS: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
_PICKLED: Final = "pytorch_model.bin"
_TERABYTE: Final = 1 << 40

Make = Callable[[Path], object]
"""Changes a valid checkpoint in a directory, or writes a package to a path."""


def _json(name: str, change: Callable[[Any], Any]) -> Make:
    def make(directory: Path) -> None:
        path = directory / name
        path.write_text(json.dumps(change(json.loads(path.read_bytes()))), encoding="utf-8")

    return make


def _config(**changes: object) -> Make:
    return _json("config.json", lambda config: config | changes)


def _content(name: str, content: bytes) -> Make:
    return lambda directory: (directory / name).write_bytes(content)


def _index(part: object) -> Make:
    """Weights in several files, one of which is `part`."""

    def make(directory: Path) -> None:
        (directory / _WEIGHTS).rename(directory / "part.safetensors")
        (directory.parent / "outside.safetensors").write_bytes(b"")
        index = {"weight_map": {"a": "part.safetensors", "b": part}}
        (directory / _INDEX).write_text(json.dumps(index), encoding="utf-8")

    return make


def _index_of_a_fifo(directory: Path) -> None:
    _index("fifo")(directory)
    os.mkfifo(directory / "fifo")


def _instead(name: str, make: Callable[[Path], object]) -> Make:
    """Something else in the place of a file."""

    def made(directory: Path) -> None:
        (directory / name).unlink()
        make(directory / name)

    return made


def _socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


def _sparse(name: str, size: int) -> Make:
    def make(directory: Path) -> None:
        with (directory / name).open("ab") as file:
            file.truncate(size)

    return make


def _many_files(directory: Path) -> None:
    for number in range(10_001):
        (directory / str(number)).touch()


def _weights(change: Callable[[dict[str, torch.Tensor]], Mapping[str, torch.Tensor]]) -> Make:
    def make(directory: Path) -> None:
        save_file(dict(change(load_file(directory / _WEIGHTS))), directory / _WEIGHTS)

    return make


def _with_nan(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    weights["model.shared.weight"][0, 0] = float("nan")
    return weights


def _safetensors(header: object) -> Make:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return _content(_WEIGHTS, struct.pack("<Q", len(text)) + text + bytes(64))


class _Executes:
    """A pickle that runs a command when it is read."""

    def __init__(self, directory: Path) -> None:
        self._mark = directory.parent / EXECUTED

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch '{self._mark}'",)


def _pickled(save: Callable[[Path, Path], object]) -> Make:
    """Weights in PyTorch's format; `save` gets the directory and the file."""

    def make(directory: Path) -> None:
        (directory / _WEIGHTS).unlink()
        save(directory, directory / _PICKLED)

    return make


def _stretched(directory: Path, path: Path) -> None:
    """Save a tensor of a terabyte that is four bytes on the disk."""
    weights = load_file(directory.parent / "whole.safetensors")
    weights["model.shared.weight"] = torch.zeros(1).as_strided((1 << 20, 1 << 18), (0, 0))
    torch.save(weights, path)


def _keep_weights(make: Make) -> Make:
    def made(directory: Path) -> None:
        shutil.copy(directory / _WEIGHTS, directory.parent / "whole.safetensors")
        make(directory)

    return made


def _script(directory: Path, path: Path) -> None:
    """Write an archive of TorchScript, which is code."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/code/__torch__.py", f"open({str(directory.parent / EXECUTED)!r}, 'w')")
        for name in ("constants.pkl", "data.pkl"):
            archive.writestr(f"archive/{name}", pickle.dumps(()))
        archive.writestr("archive/version", "3\n")


def _own_code(directory: Path) -> None:
    _config(model_type="own", auto_map={"AutoModelForSeq2SeqLM": "modeling_own.Own"})(directory)
    for name in ("modeling_own.py", "__init__.py", "sitecustomize.py", "conftest.py", "setup.py"):
        (directory / name).write_text(f"open({str(directory.parent / EXECUTED)!r}, 'w')")


def _ctranslate2(content: bytes) -> Make:
    """A directory of CTranslate2 with this model file."""

    def make(directory: Path) -> None:
        for path in directory.iterdir():
            if path.name != "sentencepiece.bpe.model":
                path.unlink()
        (directory / "shared_vocabulary.json").write_text('["<unk>", "<s>", "</s>"]')
        (directory / "model.bin").write_bytes(content)

    return make


def _ctranslate2_fifo(directory: Path) -> None:
    _ctranslate2(b"")(directory)
    (directory / "model.bin").unlink()
    os.mkfifo(directory / "model.bin")


def _string(text: bytes) -> bytes:
    return struct.pack("<H", len(text) + 1) + text + b"\0"


_HEADER: Final = struct.pack("<I", 6) + _string(b"TransformerSpec") + struct.pack("<I", 7)


def _one_variable(shape: tuple[int, ...], kind: int, size: int) -> bytes:
    described = struct.pack("<B", len(shape)) + struct.pack(f"<{len(shape)}I", *shape)
    return _HEADER + struct.pack("<I", 1) + _string(b"a") + described + struct.pack("<BI", kind, size) + bytes(16)


DIRECTORIES: Final[Mapping[str, Make]] = {
    "index names a device": _index("/dev/zero"),
    "index names a file outside": _index("../outside.safetensors"),
    "index names a file of the system": _index("/etc/passwd"),
    "index names a FIFO": _index_of_a_fifo,
    "index names a path below": _index("below/part.safetensors"),
    "index names a number": _index(7),
    "index names nothing": _index(""),
    "index names a NUL": _index("a\0b"),
    "index names a missing file": _index("missing.safetensors"),
    "index is a list": _content(_INDEX, b"[1]"),
    "weights are a FIFO": _instead(_WEIGHTS, os.mkfifo),
    "weights are a link to a device": _instead(_WEIGHTS, lambda path: path.symlink_to("/dev/zero")),
    "weights are a link to a file outside": _instead(_WEIGHTS, lambda path: path.symlink_to("/etc/passwd")),
    "weights are a link to nothing": _instead(_WEIGHTS, lambda path: path.symlink_to("nothing")),
    "weights are a link to themselves": _instead(_WEIGHTS, lambda path: path.symlink_to(path.name)),
    "a link to the root": lambda directory: (directory / "model").symlink_to("/"),
    "config is a FIFO": _instead("config.json", os.mkfifo),
    "config is a link to a device": _instead("config.json", lambda path: path.symlink_to("/dev/zero")),
    "config is a directory": _instead("config.json", lambda path: path.mkdir()),
    "vocabulary is a socket": _instead("vocab.json", _socket),
    "config is 100,000 deep": _content("config.json", b'{"model_type": ' + b"[" * 100_000),
    "config is not UTF-8": _content("config.json", b'{"model_type": "\xff\xfe"}'),
    "config has 300 MB": _sparse("config.json", 300_000_000),
    "vocabulary has 300 MB": _sparse("vocab.json", 300_000_000),
    "weights have a terabyte": _sparse(_WEIGHTS, _TERABYTE),
    "10,001 files": _many_files,
    "safetensors: endless header": _content(_WEIGHTS, b"\xff" * 8 + b"{"),
    "safetensors: nothing": _content(_WEIGHTS, b""),
    "safetensors: data outside": _safetensors({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 1 << 60]}}),
    "safetensors: negative place": _safetensors({"a": {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]}}),
    "safetensors: a shape that overflows": _safetensors(
        {"a": {"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 64]}}
    ),
    "safetensors: deep header": _safetensors(b'{"a":' * 50_000),
    "weights are not finite": _weights(_with_nan),
    "10,000 weights too many": _weights(lambda own: own | {f"own.{i}": torch.zeros(1) for i in range(10_000)}),
    "weights of another shape": _weights(lambda own: {name: each.flatten() for name, each in own.items()}),
    "pickle executes": _pickled(lambda directory, path: path.write_bytes(pickle.dumps(_Executes(directory)))),
    "pickle in a zip executes": _pickled(lambda directory, path: torch.save({"a": _Executes(directory)}, path)),
    "pickle is a list": _pickled(lambda directory, path: torch.save([1, 2], path)),
    "pickle is a stretched tensor": _keep_weights(_pickled(_stretched)),
    "pickle is a script": _pickled(_script),
    "pickle asks for a terabyte": _pickled(
        lambda directory, path: path.write_bytes(b"\x80\x04\x8e" + struct.pack("<Q", _TERABYTE))
    ),
    "code beside it": _own_code,
    "vocabulary of 10^18": _config(vocab_size=10**18),
    "10^12 positions": _config(max_position_embeddings=10**12),
    "10^9 layers": _config(encoder_layers=10**9),
    "-1 layers": _config(decoder_layers=-1),
    "10^9 heads": _config(encoder_attention_heads=10**9, decoder_attention_heads=10**9),
    "numbers are lists": _config(d_model=[[]], vocab_size={}),
    "numbers are not finite": _content(
        "config.json", b'{"model_type": "m2m_100", "d_model": NaN, "vocab_size": 1e999}'
    ),
    "ids of 10^12": _json("vocab.json", lambda vocabulary: vocabulary | {"x": 10**12}),
    "ids below 0": _json("vocab.json", lambda vocabulary: vocabulary | {"x": -1}),
    "ids are texts": _json("vocab.json", lambda vocabulary: dict.fromkeys(vocabulary, "1")),
    "language tags are objects": _content("special_tokens_map.json", b'{"additional_special_tokens": [{"a": {}}]}'),
    "SentencePiece: noise": _content("sentencepiece.bpe.model", bytes(range(256)) * 40),
    "SentencePiece: nothing": _content("sentencepiece.bpe.model", b""),
    "tokenizer.json: noise": _content("tokenizer.json", b'{"model": {"type": "BPE", "vocab": [], "merges": {}}}'),
    "CTranslate2: nothing": _ctranslate2(b""),
    "CTranslate2: noise": _ctranslate2(bytes(range(256)) * 40),
    "CTranslate2: a FIFO": _ctranslate2_fifo,
    "CTranslate2: 2^32 variables": _ctranslate2(_HEADER + struct.pack("<I", 0xFFFFFFFF)),
    "CTranslate2: 255 dimensions": _ctranslate2(_one_variable((0xFFFF,) * 255, 0, 16)),
    "CTranslate2: another size": _ctranslate2(_one_variable((1 << 30, 1 << 30), 0, 16)),
    "CTranslate2: unknown type": _ctranslate2(_one_variable((4,), 99, 16)),
    "CTranslate2: alias of nothing": _ctranslate2(
        _HEADER + struct.pack("<II", 0, 1) + _string(b"a") + _string(b"nothing")
    ),
    "CTranslate2: no variables": _ctranslate2(_HEADER + struct.pack("<II", 0, 0)),
}
"""Changes of a valid checkpoint in a directory."""


def _package(*entries: tuple[zipfile.ZipInfo | str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as package:
        for entry, data in entries:
            package.writestr(entry, data)
    return content.getvalue()


def _of_kind(kind: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("a/model/model.bin")
    entry.create_system = 3  # Unix
    entry.external_attr = (kind | 0o644) << 16
    return entry


_METADATA: Final = ("a/metadata.json", b"{}")
_MODEL: Final = ("a/model/model.bin", b"0123456789" * 100)
_CENTRAL: Final = b"PK\x01\x02"


def _in_directory(package: bytes, place: int, field: bytes) -> bytes:
    """Change a field of the last entry of a package's directory."""
    start = package.rindex(_CENTRAL) + place
    return package[:start] + field + package[start + len(field) :]


def _twice() -> bytes:
    package = _package(("a/model/model.bin", b"1"), ("a/model/model.bim", b"2"))
    return package.replace(b"model.bim", b"model.bin")


def _garbled() -> bytes:
    package = _package(("a/model/model.bin", bytes(range(256)) * 100))
    start = package.index(b"model.bin") + len(b"model.bin")
    return package[:start] + b"\xff" * 40 + package[start + 40 :]


PACKAGES: Final[Mapping[str, Callable[[], bytes]]] = {
    "a bomb": lambda: _package(_METADATA, ("a/model/model.bin", bytes(200_000_000))),
    "a declared terabyte": lambda: _in_directory(_package(_MODEL), 24, struct.pack("<I", 0xFFFFFFF0)),
    "a parent's file": lambda: _package(("../evil", b"")),
    "a parent's file, further in": lambda: _package(("a/b/../../../evil", b"")),
    "a file of the system": lambda: _package(("/tmp/evil", b"")),
    "a parent's file on Windows": lambda: _package(("..\\evil", b"")),
    "a drive of Windows": lambda: _package(("C:/evil", b"")),
    "a name with a NUL": lambda: _package(("a/bXc", b"")).replace(b"bXc", b"b\0c"),
    "a link": lambda: _package((_of_kind(stat.S_IFLNK), b"/dev/zero")),
    "a FIFO": lambda: _package((_of_kind(stat.S_IFIFO), b"")),
    "a device": lambda: _package((_of_kind(stat.S_IFCHR), b"")),
    "an encrypted file": lambda: _in_directory(_package(_MODEL), 8, b"\x01\x00"),
    "a method with a memory of its own": lambda: _package(_MODEL, compression=zipfile.ZIP_LZMA),
    "an unknown method": lambda: _in_directory(_package(_MODEL), 10, b"\x63\x00"),
    "a file twice": _twice,
    "a file and a directory of one name": lambda: _package(("a", b""), ("a/model/model.bin", b"")),
    "a wrong sum": lambda: _in_directory(_package(_MODEL), 16, b"\0\0\0\0"),
    "garbled data": _garbled,
    "half a package": lambda: _package(_MODEL)[:-30],
    "10,001 files": lambda: _package(*((str(number), b"") for number in range(10_001))),
    "a package in a package": lambda: _package(("inner.argosmodel", _package(_MODEL))),
    "a long name": lambda: _package(("a" * 5000, b"")),
    "text": lambda: b"no package",
    "nothing": lambda: b"",
}
"""The contents of Argos packages."""

OTHERS: Final[Mapping[str, Make]] = {
    "a FIFO": os.mkfifo,
    "a socket": _socket,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "an empty directory": lambda path: path.mkdir(),
}
"""Something else in the place of a checkpoint."""

KINDS: Final = [
    *(f"directory, {name}" for name in DIRECTORIES),
    *(f"package, {name}" for name in PACKAGES),
    *(f"other, {name}" for name in OTHERS),
]


def make(kind: str, valid: Path, path: Path) -> None:
    """Write a checkpoint of this kind to `path`; `valid` is a valid one."""
    family, _, name = kind.partition(", ")
    if family == "directory":
        shutil.copytree(valid, path)
        DIRECTORIES[name](path)
    elif family == "package":
        path.write_bytes(PACKAGES[name]())
    else:
        OTHERS[name](path)
