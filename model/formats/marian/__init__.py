"""Marian's own files: `model.npz` with its vocabularies (OPUS-MT's releases), and Firefox's binary ones."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from model.checkpoint_config import CheckpointError, LanguageHint
from model.config import ModelConfig
from model.formats.checked_source import Imported, Options
from model.formats.marian.file import CONFIGURATION, Content, read_archive, read_binary
from model.formats.marian.options import configuration
from model.formats.marian.settings import read_options
from model.formats.marian.shortlist import find as find_shortlist
from model.formats.marian.shortlist import read_shortlist
from model.formats.marian.vocabulary import decoder_options, read_vocabulary
from model.formats.marian.weights import Parameters, translated
from model.formats.multilingual import Parts, target_tag_prefix
from model.source_files import source_file

_READERS: Final[dict[str, Callable[[Path], Content]]] = {".npz": read_archive, ".bin": read_binary}
_PAIR: Final = re.compile(r"model\.([a-z]{2})([a-z]{2})\.")
"""The languages of Firefox's models, in the names of their files."""


def find(directory: Path) -> Path | None:
    """Return the model's file; None for a directory without.

    Raises `CheckpointError` for several, unless a configuration of Marian's decoder names one of them.
    """
    found = [*directory.glob("*intgemm*.bin"), *directory.glob("*.npz")]
    models = sorted(path for path in found if not path.name.endswith(".optimizer.npz"))
    if len(models) < 2:
        return models[0] if models else None
    named = decoder_options(directory).get("models")
    if isinstance(named, list) and len(named) == 1 and Path(str(named[0])).name in {path.name for path in models}:
        return source_file(directory, Path(str(named[0])).name)
    names = ", ".join(path.name for path in models)
    raise CheckpointError(
        f"{directory}: has several Marian models ({names}), and no decoder.yml that names one of them"
    )


def read(path: Path, hint: LanguageHint) -> Imported:
    """Read a model file and the files beside it.

    Raises `CheckpointError` for anything unsupported, missing, left over or broken.
    """
    directory = path.parent
    content = _READERS[path.suffix](path)
    if not content.configuration:
        raise CheckpointError(f"{path}: has no {CONFIGURATION}")
    config = configuration(Options(read_options(content.configuration, path), path))
    words = read_vocabulary(directory, config.source_vocab_size or config.vocab_size - 1, config.vocab_size - 1)
    # There is no padding in Marian; any id will do that does not end a sentence.
    ids = {"eos_id": words.eos_id, "pad_id": 0 if words.eos_id else 1}
    config = ModelConfig.model_validate(config.model_dump() | ids)
    weights = translated(Parameters(content, path), config, words.unknown_id)
    found = _PAIR.match(path.name)
    if found is not None:
        hint = LanguageHint(hint.source or found[1], hint.target or found[2])
    imported = target_tag_prefix(Parts(directory, words.vocabulary, config, weights), hint)
    shortlist = find_shortlist(directory)
    return imported if shortlist is None else imported._replace(shortlist=read_shortlist(shortlist, config))
