"""The vocabularies of a Marian model: SentencePiece models, or YAML lists with SentencePiece models beside them."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import sentencepiece

from model.checkpoint_config import CheckpointError
from model.formats.checked_source import ordered, read_files, vocabulary_files
from model.formats.marian.settings import read_options_file, read_pieces
from model.formats.vocabulary import Vocabulary
from model.source_files import source_file

_EOS, _UNKNOWN = "</s>", "<unk>"
_NAMED: Final = (("srcvocab*.spm", "trgvocab*.spm"), ("vocab*.spm",), ("*vocab*.yml",))
"""Names of vocabularies where no configuration has them: Firefox's, and OPUS-MT's."""
_DECODERS: Final = ("decoder.yml", "config*.yml", "*.decoder.yml")


class Words(NamedTuple):
    """The vocabulary, and the ids of its special pieces on the target side."""

    vocabulary: Vocabulary
    eos_id: int
    unknown_id: int


def decoder_options(directory: Path) -> dict[str, Any]:
    """Return the options of Marian's decoder, if there are any. Raises `CheckpointError`."""
    for pattern in _DECODERS:
        for path in sorted(directory.glob(pattern)):
            if {"models", "vocabs"} <= (options := read_options_file(path)).keys():
                return options
    return {}


def read_vocabulary(directory: Path, source_size: int, target_size: int) -> Words:
    """Read the vocabularies of a model with so many words. Raises `CheckpointError`."""
    source, target = _paths(directory)
    if source.suffix == ".spm" and target.suffix == ".spm":
        files, source_words, target_words = _sentencepiece(source, target)
    elif source.suffix == ".yml" and target.suffix == ".yml":
        files = _beside(directory)
        source_words = ordered(read_pieces(source), source_size)
        target_words = source_words if source == target else ordered(read_pieces(target), target_size)
        files |= vocabulary_files(source_words, target_words)
    else:
        raise CheckpointError(f"{directory}: {source.name} and {target.name} are not vocabularies of a known kind")
    missing = [piece for piece in (_EOS, _UNKNOWN) if piece not in target_words]
    if missing:
        raise CheckpointError(f"{target}: has no {' and no '.join(missing)}")
    return Words(Vocabulary(files, source_words), target_words.index(_EOS), target_words.index(_UNKNOWN))


def _paths(directory: Path) -> tuple[Path, Path]:
    named = decoder_options(directory).get("vocabs")
    if isinstance(named, list) and len(named) == 2:
        source, target = (source_file(directory, Path(str(name)).name) for name in named)
        return source, target
    for patterns in _NAMED:
        found = [sorted(directory.glob(pattern)) for pattern in patterns]
        if all(len(each) == 1 for each in found):
            return found[0][0], found[-1][0]
    raise CheckpointError(
        f"{directory}: has no vocabulary (vocab.*.spm, srcvocab.*.spm and trgvocab.*.spm, or *vocab.yml), or several "
        "and no decoder.yml that names two of them"
    )


def _sentencepiece(source: Path, target: Path) -> tuple[dict[str, bytes], list[str], list[str]]:
    files = read_files(source.parent, {source.name: "source.model"}) | read_files(
        source.parent, {target.name: "target.model"}
    )
    source_words, target_words = (
        _words(path, content) for path, content in zip((source, target), files.values(), strict=True)
    )
    if files["source.model"] == files["target.model"]:
        files = {"tokenizer.model": files["source.model"]}
    return files, source_words, target_words


def _words(path: Path, content: bytes) -> list[str]:
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise CheckpointError(f"{path}: {error}") from None
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def _beside(directory: Path) -> dict[str, bytes]:
    names = {"source.spm": "source.model", "target.spm": "target.model"}
    missing = [name for name in names if not (directory / name).exists()]
    if missing:
        raise CheckpointError(
            f"{directory}: {' and '.join(missing)} are missing; tokenizers of subword-nmt are not supported"
        )
    return read_files(directory, names)
