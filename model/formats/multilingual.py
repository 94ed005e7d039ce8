"""Models of many languages, and where each kind expects language tags: M2M100 and NLLB, mBART, Marian's groups."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from torch import Tensor

from model.checkpoint_config import CheckpointConfig, CheckpointError, Direction, LanguageHint
from model.config import ModelConfig
from model.formats.checked_source import Imported, languages_unknown, read_json
from model.formats.languages import codes_of
from model.formats.vocabulary import Vocabulary
from model.tokenizer import Prompt, Tokenizer

_LANGUAGE_TAG: Final = re.compile(
    r"__(?P<iso>[a-z]{2,3})__|(?P<flores>[a-z]{3}_[A-Z][a-z]{3})|(?P<mbart>[a-z]{2}_[A-Z]{2})"
)
_MARIAN_TAG: Final = re.compile(r">>(.+)<<")


def tagged_both_sides(
    directory: Path, vocabulary: Vocabulary, config: ModelConfig, weights: dict[str, Tensor]
) -> Imported:
    """Import M2M100, NLLB-200 or mBART-50: a tag of the source language before the text, and one of the target language
    before its translation."""
    prompt = Prompt(
        languages=_languages(directory, vocabulary),
        source_prefix=("{source}",),
        target_prefix=("{target}",),
    )
    described = CheckpointConfig(languages=tuple(sorted(prompt.languages)), prompt=prompt, model=config)
    return Imported(described, weights, Tokenizer(vocabulary.files, prompt))


def source_tag_suffix(
    directory: Path, vocabulary: Vocabulary, config: ModelConfig, weights: dict[str, Tensor], hint: LanguageHint
) -> Imported:
    """Import mBART-cc25 or its fine-tunings: the source's tag stands after the text, the target's starts the decoder.

    So it translates into one language: the hint's, or else that of `decoder_start_token_id`.
    """
    prompt = Prompt(languages=_languages(directory, vocabulary), source_prefix=(), source_suffix=("</s>", "{source}"))
    tokenizer = Tokenizer(vocabulary.files, prompt)
    starts = {code: tokenizer.piece_id(piece) for code, piece in prompt.languages.items()}
    target = hint.target or next((code for code, start in starts.items() if start == config.bos_id), None)
    if hint.source is None or target is None:
        raise languages_unknown(directory)
    for code in (hint.source, target):
        if code not in starts:
            raise CheckpointError(f"{directory}: {code} is none of its languages: {', '.join(sorted(starts))}")
    described = CheckpointConfig(
        directions=(Direction(source=hint.source, target=target),),
        prompt=prompt,
        model=config.model_copy(update={"bos_id": starts[target]}),
    )
    return Imported(described, weights, tokenizer)


def target_tag_prefix(
    directory: Path, vocabulary: Vocabulary, config: ModelConfig, weights: dict[str, Tensor], hint: LanguageHint
) -> Imported:
    """Import Marian: a tag of the target language before the text, where a model has several."""
    source, target = (_named(directory, place, given) for place, given in enumerate(hint))
    tags = codes_of(tag[1] for piece in vocabulary.special if (tag := _MARIAN_TAG.fullmatch(piece)))
    targets = list(tags) if tags else [target]
    if source is None or None in targets:
        raise languages_unknown(directory)
    directions = tuple(Direction(source=source, target=each) for each in targets if each and each != source)
    prompt = Prompt(languages={code: f">>{name}<<" for code, name in tags.items()})
    described = CheckpointConfig(directions=directions, prompt=prompt, model=config)
    return Imported(described, weights, Tokenizer(vocabulary.files, prompt))


def _named(directory: Path, place: int, given: str | None) -> str | None:
    """Return the language of the source (0) or the target (1): the hint's, or else the one in the files' names."""
    if given:
        return given
    described = directory / "tokenizer_config.json"
    options = read_json(described) if described.exists() else {}
    named = re.search(r"opus-mt-(?:tc-big-)?([A-Za-z_]+)-([A-Za-z_]+)$", directory.resolve().name)
    name = options.get(("source_lang", "target_lang")[place]) or (named and named[place + 1])
    return next(iter(codes_of([name] if name else [])), None)


def are_languages(pieces: Iterable[str]) -> bool:
    """Return True if the pieces contain language tags of one of these kinds, except Marian's."""
    return len(_language_tags(pieces)) > 1


def _languages(directory: Path, vocabulary: Vocabulary) -> dict[str, str]:
    """Return each language's tag by its code."""
    names = _language_tags(vocabulary.special)
    languages = {code: names[name] for code, name in codes_of(names).items()}
    if len(languages) < 2:
        raise CheckpointError(f"{directory}: no language tokens are found in the tokenizer's files")
    return languages


def _language_tags(pieces: Iterable[str]) -> dict[str, str]:
    return {found[found.lastgroup or ""]: piece for piece in pieces if (found := _LANGUAGE_TAG.fullmatch(piece))}


def tokenizer_class(directory: Path) -> str:
    """Return the tokenizer's class, "" if the files do not name one."""
    path = directory / "tokenizer_config.json"
    return str(read_json(path).get("tokenizer_class", "")) if path.exists() else ""
