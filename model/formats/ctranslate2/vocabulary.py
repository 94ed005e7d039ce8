"""The words of a CTranslate2 model, and the tokenizer beside it, as the files of one of ours."""

from pathlib import Path
from typing import Final

import sentencepiece

from model.checkpoint_config import CheckpointError
from model.formats.checked_source import read_any_json, read_bytes, read_files, vocabulary_files
from model.formats.vocabulary import Vocabulary, read_vocabulary
from model.subwords import JsonPieces

_SHARED: Final = ("sentencepiece.model", "sentencepiece.bpe.model")
_SIDES: Final = {"source.spm": "source.model", "target.spm": "target.model"}


def vocabularies(directory: Path) -> tuple[list[str], list[str]]:
    """Return the words of source and target; the same list where they share it."""
    shared = _vocabulary(directory, "shared_vocabulary") or _vocabulary(directory, "vocabulary")
    source, target = _vocabulary(directory, "source_vocabulary"), _vocabulary(directory, "target_vocabulary")
    if shared is not None:
        return shared, shared
    if source is None or target is None:
        raise CheckpointError(f"{directory} has no vocabulary")
    return source, target


def _vocabulary(directory: Path, name: str) -> list[str] | None:
    if (path := directory / f"{name}.json").exists():
        words = read_any_json(path)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise CheckpointError(f"{path}: is not a list of words")
        return words
    if (path := directory / f"{name}.txt").exists():
        return read_bytes(path).decode().removesuffix("\n").split("\n")
    return None


def read_tokenizer(directory: Path, source: list[str], target: list[str]) -> Vocabulary:
    """Read the tokenizer beside a model whose vocabularies are `source` and `target`. Raises `CheckpointError`."""
    if source is target and (directory / "tokenizer.json").exists():
        return _of_hugging_face(directory, target)
    files = _sentencepiece(directory)
    [model, *_] = files.values()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return Vocabulary(
        files | vocabulary_files(source, target),
        [word for word in source if processor.is_unknown(processor.piece_to_id(word))],
    )


def _of_hugging_face(directory: Path, words: list[str]) -> Vocabulary:
    vocabulary = read_vocabulary(directory, len(words))
    pieces = JsonPieces(vocabulary.files["tokenizer.json"])
    if any(pieces.name(i) != word for i, word in zip(range(len(pieces)), words, strict=False)):
        raise CheckpointError(f"{directory}: tokenizer.json numbers its pieces otherwise than the model")
    return vocabulary


def _sentencepiece(directory: Path) -> dict[str, bytes]:
    for place in (directory, directory.parent):
        for name in _SHARED:
            if (place / name).exists():
                return read_files(place, {name: "tokenizer.model"})
        if all((place / name).exists() for name in _SIDES):
            return read_files(place, _SIDES)
        if (place / "bpe.model").exists():
            raise CheckpointError(f"{place / 'bpe.model'}: its tokenizer is BPE of subword-nmt, which is not supported")
    raise CheckpointError(f"{directory}: neither sentencepiece.model nor source.spm and target.spm are there")
