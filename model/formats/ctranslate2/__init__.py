"""CTranslate2's directories, and Argos packages around them: models that Marian, OpenNMT and fairseq have trained."""

from collections.abc import Sequence
from pathlib import Path

from model.checkpoint_config import CheckpointError, LanguageHint
from model.formats.checked_source import Imported, Options, read_json
from model.formats.ctranslate2.file import read_content
from model.formats.ctranslate2.options import ZERO_START, Special, asks_for_all_tokens, configuration, special_pieces
from model.formats.ctranslate2.vocabulary import read_tokenizer, vocabularies
from model.formats.ctranslate2.weights import Variables, translated
from model.formats.multilingual import (
    Parts,
    are_languages,
    one_pair,
    source_tag_suffix,
    tagged_both_sides,
    target_tag_prefix,
)
from model.tokenizer import Prompt, Tokenizer


def find(path: Path) -> Path | None:
    """Find the directory of the model in `path`: that, or the `model` of an unpacked Argos package in or below it."""
    for directory in (path, path / "model", *path.glob("*/model")):
        if (directory / "model.bin").exists():
            return directory
    return None


def read(directory: Path, hint: LanguageHint) -> Imported:
    """`directory` holds model.bin. Raises `CheckpointError` for anything unsupported, missing, left over or broken."""
    path, described = directory / "model.bin", directory / "config.json"
    source_words, target_words = vocabularies(directory)
    vocabulary = read_tokenizer(directory, source_words, target_words)
    variables, stated = read_content(path)
    stated = (read_json(described) if described.exists() else {}) | stated
    numbers = Options({name: value.item() for name, value in variables.items() if not value.dim()}, path)
    tensors = {name: value for name, value in variables.items() if value.dim()}
    special = special_pieces(Options(stated, described))
    config = configuration(numbers, tensors, special, target_words)
    from_zero = bool(numbers.get(ZERO_START, 0))
    weights = translated(Variables(tensors, path), config, starts_from_zero=from_zero)
    parts = Parts(directory, vocabulary, config, weights)
    package = directory.parent / "metadata.json"
    asks_all = asks_for_all_tokens(numbers, special)
    if package.exists() or not (from_zero or asks_all or are_languages(vocabulary.special)):
        pair = _of_a_pair(parts, special, _completed(hint, package))
        return _begun(pair, package, target_words) if package.exists() else pair
    if from_zero:
        return target_tag_prefix(parts, hint)
    if are_languages(vocabulary.special):
        if special.start is not None and (asks_all or special.after):
            return tagged_both_sides(parts)
        if special.start is None and config.embedding_norm:
            return source_tag_suffix(parts, hint)
    elif config.embedding_norm:
        return _of_a_pair(parts, special._replace(before=("<s>",), after=("</s>",)), hint)
    raise CheckpointError(f"{directory}: which tokens it expects around a text is not known")


def _of_a_pair(parts: Parts, special: Special, hint: LanguageHint) -> Imported:
    if special.start is None:
        raise CheckpointError(f"{parts.directory}: config.json does not say what a translation begins with")
    return one_pair(parts, hint, Prompt(source_prefix=special.before, source_suffix=special.after))


def _begun(imported: Imported, package: Path, target_words: Sequence[str]) -> Imported:
    """Add the piece that an Argos package has every translation begin with, if it has one."""
    piece = read_json(package).get("target_prefix") or None
    if piece is None:
        return imported
    if piece not in target_words:
        raise CheckpointError(f"{package}: target_prefix {piece!r} is not a piece of the model")
    prompt = imported.config.prompt.model_copy(update={"target_prefix": (piece,)})
    config = imported.config.model_copy(update={"prompt": prompt})
    return imported._replace(config=config, tokenizer=Tokenizer(imported.tokenizer.files, prompt))


def _completed(hint: LanguageHint, package: Path) -> LanguageHint:
    """Return the hint, completed by the languages that an Argos package names."""
    named = read_json(package) if package.exists() else {}
    return LanguageHint(hint.source or named.get("from_code"), hint.target or named.get("to_code"))
