"""Models of many languages in Hugging Face's directories, and how each kind is told which."""

import re
from pathlib import Path
from typing import Final

from torch import Tensor

from model.config import ModelConfig
from model.formats.languages import codes_of
from model.formats.reading import Imported, languages_unknown, ordered, pieces_json, read_files, read_json
from model.manifest import CheckpointConfig, CheckpointError, Direction, Wanted
from model.tokenizer import Prompt, Tokenizer

_LANGUAGE_PIECE: Final = re.compile(
    r"__(?P<iso>[a-z]{2,3})__|(?P<flores>[a-z]{3}_[A-Z][a-z]{3})|(?P<mbart>[a-z]{2}_[A-Z]{2})"
)


def told_both(directory: Path, config: ModelConfig, weights: dict[str, Tensor]) -> Imported:
    """M2M100, NLLB-200, mBART-50: the source's language stands before the text, the target's before its translation."""
    pieces = _special_pieces(directory)
    prompt = Prompt(
        languages=_languages(directory, pieces),
        source_prefix=("{source}",),
        target_prefix=("{target}",),
    )
    described = CheckpointConfig(languages=tuple(sorted(prompt.languages)), prompt=prompt, model=config)
    return Imported(described, weights, Tokenizer(_tokenizer_files(directory, config.vocab_size, pieces), prompt))


def told_behind(directory: Path, config: ModelConfig, weights: dict[str, Tensor], wanted: Wanted) -> Imported:
    """mBART-cc25 and what is made of it: the source's language stands behind the text, the target's starts the decoder.

    So it translates into one language: the one that is wanted, or else that of `decoder_start_token_id`.
    """
    pieces = _special_pieces(directory)
    prompt = Prompt(languages=_languages(directory, pieces), source_prefix=(), source_suffix=("</s>", "{source}"))
    tokenizer = Tokenizer(_tokenizer_files(directory, config.vocab_size, pieces), prompt)
    starts = {code: tokenizer.piece_id(piece) for code, piece in prompt.languages.items()}
    target = wanted.target or next((code for code, start in starts.items() if start == config.bos_id), None)
    if wanted.source is None or target is None:
        raise languages_unknown(directory)
    for code in (wanted.source, target):
        if code not in starts:
            raise CheckpointError(f"{directory}: {code} is none of its languages: {', '.join(sorted(starts))}")
    described = CheckpointConfig(
        directions=(Direction(source=wanted.source, target=target),),
        prompt=prompt,
        model=config.model_copy(update={"bos_id": starts[target]}),
    )
    return Imported(described, weights, tokenizer)


def _languages(directory: Path, pieces: list[str]) -> dict[str, str]:
    """The piece of each language by its code."""
    names = {found[found.lastgroup or ""]: piece for piece in pieces if (found := _LANGUAGE_PIECE.fullmatch(piece))}
    languages = {code: names[name] for code, name in codes_of(names).items()}
    if len(languages) < 2:
        raise CheckpointError(f"{directory}: no language tokens are found in the tokenizer's files")
    return languages


def tokenizer_class(directory: Path) -> str:
    """Empty where nothing is said."""
    path = directory / "tokenizer_config.json"
    return str(read_json(path).get("tokenizer_class", "")) if path.exists() else ""


def _tokenizer_files(directory: Path, vocab_size: int, special: list[str]) -> dict[str, bytes]:
    if (directory / "tokenizer.json").exists():
        return read_files(directory, {"tokenizer.json": "tokenizer.json"})
    vocabulary = dict(read_json(directory / "vocab.json"))
    for piece in special:
        vocabulary.setdefault(piece, len(vocabulary))
    files = read_files(directory, {"sentencepiece.bpe.model": "tokenizer.model"})
    return files | {"vocabulary.json": pieces_json(ordered(vocabulary, vocab_size))}


def _special_pieces(directory: Path) -> list[str]:
    """Pieces beside the words, in the order of their ids."""
    found: dict[str, int] = {}
    if (path := directory / "tokenizer.json").exists():
        found = {each["content"]: each["id"] for each in read_json(path)["added_tokens"]}
    elif (path := directory / "added_tokens.json").exists():
        found = read_json(path)
    elif (path := directory / "special_tokens_map.json").exists():
        listed = read_json(path).get("additional_special_tokens", [])
        found = {each if isinstance(each, str) else each["content"]: number for number, each in enumerate(listed)}
    return sorted(found, key=found.__getitem__)
