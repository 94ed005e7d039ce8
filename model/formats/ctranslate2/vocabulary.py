"""The words of a CTranslate2 model, and the SentencePiece models beside it, as the files of a tokenizer of ours."""

from pathlib import Path

from model.formats.reading import pieces_json, read_json
from model.manifest import CheckpointError


def vocabularies(directory: Path) -> tuple[list[str], list[str]]:
    """Of source and target; the same list where they share it."""
    shared = _vocabulary(directory, "shared_vocabulary") or _vocabulary(directory, "vocabulary")
    source, target = _vocabulary(directory, "source_vocabulary"), _vocabulary(directory, "target_vocabulary")
    if shared is not None:
        return shared, shared
    if source is None or target is None:
        raise CheckpointError(f"{directory} has no vocabulary")
    return source, target


def _vocabulary(directory: Path, name: str) -> list[str] | None:
    if (path := directory / f"{name}.json").exists():
        words = read_json(path)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise CheckpointError(f"{path}: is not a list of words")
        return words
    if (path := directory / f"{name}.txt").exists():
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return None


def tokenizer_files(directory: Path, source: list[str], target: list[str]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for place in (directory, directory.parent):
        if (shared := place / "sentencepiece.model").exists():
            files["tokenizer.model"] = shared.read_bytes()
            break
        if (sides := [place / "source.spm", place / "target.spm"]) and all(path.exists() for path in sides):
            files |= {"source.model": sides[0].read_bytes(), "target.model": sides[1].read_bytes()}
            break
    else:
        raise CheckpointError(f"{directory}: neither sentencepiece.model nor source.spm and target.spm are there")
    if source is target:
        return files | {"vocabulary.json": pieces_json(target)}
    both = {"source_vocabulary.json": source, "target_vocabulary.json": target}
    return files | {name: pieces_json(words) for name, words in both.items()}
