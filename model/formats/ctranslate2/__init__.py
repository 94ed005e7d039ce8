"""CTranslate2's directories, and Argos packages around them: models that Marian, OpenNMT and fairseq have trained."""

from pathlib import Path
from typing import Final

from model.formats.ctranslate2.file import read_variables
from model.formats.ctranslate2.options import ZERO_START, configuration, special_pieces
from model.formats.ctranslate2.vocabulary import tokenizer_files, vocabularies
from model.formats.ctranslate2.weights import Variables, translated
from model.formats.reading import Imported, Options, languages_unknown, read_json
from model.manifest import CheckpointConfig, Direction, Wanted
from model.tokenizer import Prompt, Tokenizer

_START: Final = "<start>"


def find(path: Path) -> Path | None:
    """The directory of the model in `path`: that, or the `model` of an unpacked Argos package in or below it."""
    for directory in (path, path / "model", *path.glob("*/model")):
        if (directory / "model.bin").exists():
            return directory
    return None


def read(directory: Path, wanted: Wanted) -> Imported:
    """`directory` holds model.bin. Raises `CheckpointError` for what is not supported, missing, left over or broken."""
    path = directory / "model.bin"
    variables = read_variables(path)
    numbers = {name: value.item() for name, value in variables.items() if not value.dim()}
    tensors = {name: value for name, value in variables.items() if value.dim()}
    described = directory / "config.json"
    settings = Options(read_json(described) if described.exists() else {}, described)
    special = special_pieces(settings)
    source_words, target_words = vocabularies(directory)
    config = configuration(Options(numbers, path), tensors, special, target_words)
    weights = translated(Variables(tensors, path), config, starts_from_zero=bool(numbers.get(ZERO_START)))
    if config.bos_id == len(target_words):
        target_words = [*target_words, _START]
        source_words = target_words if config.source_vocab_size is None else source_words
    prompt = Prompt(source_prefix=special.before, source_suffix=special.after)
    tokenizer = Tokenizer(tokenizer_files(directory, source_words, target_words), prompt)
    described_ours = CheckpointConfig(directions=(_direction(directory, wanted),), prompt=prompt, model=config)
    return Imported(described_ours, weights, tokenizer)


def _direction(directory: Path, wanted: Wanted) -> Direction:
    described = directory.parent / "metadata.json"
    said = read_json(described) if described.exists() else {}
    source, target = wanted.source or said.get("from_code"), wanted.target or said.get("to_code")
    if not source or not target:
        raise languages_unknown(directory)
    return Direction(source=source, target=target)
