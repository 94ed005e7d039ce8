"""The base of all formats: options that are checked, weights that are renamed, and errors for everything left over."""

import json
import math
import mmap
import struct
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.checkpoint_config import CheckpointConfig, CheckpointError
from model.config import Activation, ModelConfig
from model.shortlist import Shortlist
from model.source_files import MEGABYTE, source_file
from model.tokenizer import Tokenizer

_MOST_TEXT_BYTES: Final = 256 * MEGABYTE
"""Limit of a file that is read as a whole: a tokenizer, or a description. The largest known have 20 MB."""
NEVER: Final = -1e4
"""A bias that makes a token impossible: its probability is 0 in float32."""

ACTIVATIONS: Final[dict[str, Activation]] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "swish",
    "silu": "swish",
}
"""Activations by the names that transformers has for them."""


class Imported(NamedTuple):
    """A checkpoint of another format, as one of ours."""

    config: CheckpointConfig
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    shortlist: Shortlist | None = None


class Options:
    """The settings of another format. Collects everything unsupported, so that one error can list it."""

    def __init__(self, values: Mapping[str, Any], path: Path) -> None:
        self._values = values
        self._path = path
        self._problems: list[str] = []

    def get(self, name: str, default: Any = None) -> Any:
        value = self._values.get(name)
        return default if value is None else value

    def has(self, name: str) -> bool:
        """Return True if the option is there, if only as null."""
        return name in self._values

    def number(self, name: str, default: int | None = None) -> int:
        """Return a count or an id; 0 stands for a missing or wrong one, until `check`."""
        value = self.get(name, default)
        if isinstance(value, list) and value:  # some have several ends of sentence
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        self.refuse(f"{name} is {value}")
        return 0

    def only(self, name: str, *allowed: Any, default: Any = None) -> Any:
        """Return the value, if it is one of `allowed`; `default`, or the first of them, if it is absent."""
        value = self.get(name, allowed[0] if default is None else default)
        if value not in allowed:
            self.refuse(f"{name} is {value}")
            return allowed[0]
        return value

    def same(self, *names: str) -> int:
        """Return a number that two sides must agree on."""
        numbers = {name: self.number(name) for name in names}
        if len(set(numbers.values())) > 1:
            self.refuse(" but ".join(f"{name} is {value}" for name, value in numbers.items()))
        return numbers[names[0]]

    def known(self, names: Collection[str]) -> None:
        """Refuse every setting that is not one of these."""
        for name in self._values.keys() - names:
            self.refuse(f"{name} is {self._values[name]}")

    def refuse(self, problem: str) -> None:
        self._problems.append(problem)

    def check(self) -> None:
        """Raises `CheckpointError` naming every problem."""
        if self._problems:
            raise CheckpointError(f"{self._path}: not supported: {'; '.join(sorted(self._problems))}")


class Weights:
    """The tensors of a checkpoint, each to be taken once; `check` refuses missing ones and leftovers."""

    def __init__(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        self._left = dict(tensors)
        self._path = path
        self._problems: list[str] = []

    def take(self, name: str) -> Tensor:
        """Return the tensor of that name; where it is missing an empty one, until `check`."""
        if name in self._left:
            return self._left.pop(name)
        self.refuse(f"missing {name}")
        return torch.zeros(0, 0)

    def refuse(self, problem: str) -> None:
        self._problems.append(problem)

    def take_if(self, name: str) -> Tensor | None:
        return self._left.pop(name, None)

    def renamed(self, names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Tensor]]:
        """Yield the weights of a table of (ours, theirs) by our names."""
        for ours, theirs in names:
            yield ours, self.take(theirs)

    def drop(self, *names: str) -> None:
        """Drop weights that are stored, but computed or tied here."""
        for name in names:
            self._left.pop(name, None)

    def check(self) -> None:
        """Raises `CheckpointError` naming each weight that is missing or left over."""
        problems = self._problems + [f"unexpected {name}" for name in self._left]
        if problems:
            raise CheckpointError(f"{self._path}: {'; '.join(sorted(problems))}")


def languages_unknown(directory: Path) -> CheckpointError:
    """Return the error for a format that does not record its languages."""
    return CheckpointError(f"{directory}: the files do not say its languages: `dragoman import --source ...`")


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object. Raises `CheckpointError` for a file that is missing, broken or of another kind."""
    content = read_any_json(path)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: is not of its format: {type(content).__name__}, not an object")
    return content


def read_any_json(path: Path) -> Any:
    """Raises `CheckpointError` for a file that is missing or broken."""
    try:
        return json.loads(read_bytes(path))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def ordered(vocabulary: dict[str, int], size: int) -> list[str]:
    """Pieces by id, up to the last that has one; ids without get a name that no text has."""
    for token in vocabulary.values():
        if not 0 <= token < size:
            raise CheckpointError(f"the vocabulary has the id {token}, the model {size} of them")
    pieces = [f"<unused {i}>" for i in range(max(vocabulary.values(), default=-1) + 1)]
    for piece, token in vocabulary.items():
        pieces[token] = piece
    return pieces


def vocabulary_files(source: list[str], target: list[str]) -> dict[str, bytes]:
    """Return the files of both sides' pieces by our names: one file if they are the same list."""
    both = {"source_vocabulary.json": source, "target_vocabulary.json": target}
    files = {"vocabulary.json": target} if source is target else both
    return {name: json.dumps(pieces, ensure_ascii=False).encode() for name, pieces in files.items()}


def read_bytes(path: Path) -> bytes:
    """Return a whole file. Raises `OSError`, and `CheckpointError` for one that is far too large."""
    if (size := path.stat().st_size) > _MOST_TEXT_BYTES:
        raise CheckpointError(f"{path}: has {size} bytes, the limit is {_MOST_TEXT_BYTES}")
    return path.read_bytes()


class BinaryContent:
    """The content of a binary file with little-endian numbers, read from its beginning to its end."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._place = 0

    def bytes(self, count: int) -> bytes:
        """Raises `ValueError` where the file ends too early."""
        end = self._place + count
        if end > len(self._content):
            raise ValueError("ends too early")
        read = self._content[self._place : end]
        self._place = end
        return read

    def number(self, kind: str) -> int:
        [number] = self.numbers(kind, 1)
        return number

    def numbers(self, kind: str, count: int) -> list[int]:
        """Read numbers of a kind that `struct` knows. Raises `ValueError` where the file ends too early."""
        if count > len(self._content):
            raise ValueError("ends too early")
        form = f"<{count}{kind}"
        return list(struct.unpack(form, self.bytes(struct.calcsize(form))))

    def check_end(self) -> None:
        """Raises `ValueError` for bytes that nothing has read."""
        if self._place != len(self._content):
            raise ValueError(f"{len(self._content) - self._place} bytes are left over")


@contextmanager
def open_binary(path: Path) -> Iterator[BinaryContent]:
    """Raises `CheckpointError` for a file that is missing or empty, and for what its reader finds wrong with it."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield BinaryContent(content)
    except (OSError, ValueError, struct.error, RuntimeError) as error:  # UnicodeDecodeError is a ValueError
        raise CheckpointError(f"{path}: {error}") from None


def read_files(directory: Path, names: dict[str, str]) -> dict[str, bytes]:
    """Read the files of these names; return them by ours."""
    try:
        return {ours: read_bytes(directory / theirs) for theirs, ours in names.items()}
    except OSError as error:
        raise CheckpointError(f"{directory}: {error}") from None


def read_weights(directory: Path) -> Weights:
    """Read weights from safetensors, or from PyTorch's format without running code in it; from one file or several."""
    for name, read in (("model.safetensors", _read_safetensors), ("pytorch_model.bin", _read_torch)):
        index = directory / f"{name}.index.json"
        parts = sorted(set(read_json(index)["weight_map"].values())) if index.exists() else [name]
        files = [source_file(directory, part) for part in parts]
        if all(file.exists() for file in files):
            return Weights({key: tensor for file in files for key, tensor in read(file)}, directory)
    raise CheckpointError(f"{directory} has neither model.safetensors nor pytorch_model.bin")


def _read_safetensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118  not a dict
                yield name, file.get_tensor(name)
    except SafetensorError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _read_torch(path: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        # Files from before PyTorch 1.6 are not zip files, and cannot be mapped.
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        for name, tensor in content.items():
            if tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
                raise ValueError(f"{name} is larger than its data: {list(tensor.shape)}")
            yield name, tensor
    except Exception as error:  # it raises many kinds
        raise CheckpointError(f"{path}: {str(error).partition(chr(10))[0] or type(error).__name__}") from None


def table(
    layers: int, names: Iterable[tuple[str, str]], kinds: Sequence[str] = ("weight", "bias")
) -> list[tuple[str, str]]:
    """Return a table of (ours, theirs) for every layer `{i}`, with each kind of parameter."""
    return [
        (f"{ours.format(i=i)}.{kind}", f"{theirs.format(i=i)}.{kind}")
        for i in range(layers)
        for ours, theirs in names
        for kind in kinds
    ]


def attention(ours: str, theirs: str, *projections: str) -> list[tuple[str, str]]:
    """Return the part of a table for an attention's query, key, value and output, as theirs are called."""
    names = zip(("query", "key", "value", "output"), projections, strict=True)
    return [(f"{ours}.{one}", f"{theirs}.{other}") for one, other in names]


def impossible(vocab_size: int, *token_ids: int) -> Tensor:
    """Return a bias `[vocab_size]` of the projection under which these are never written."""
    bias = torch.zeros(vocab_size)
    bias[list(token_ids)] = NEVER
    return bias


def model_config(options: Options, **fields: Any) -> ModelConfig:
    """Checked before, so that unsupported options are reported first. Raises `CheckpointError`, or pydantic's error."""
    options.check()
    return ModelConfig(**fields)


def sines_then_cosines(first: int, count: int, d_model: int) -> Tensor:
    """Return the table of positions `[count, d_model]` from `first` on, with the longest wave in the last place.

    An odd width has a zero at the end.
    """
    half = d_model // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(first, first + count, dtype=torch.float64)[:, None] * rates
    encodings = torch.cat([angles.sin(), angles.cos()], dim=1).float()
    return torch.nn.functional.pad(encodings, (0, d_model - 2 * half))
