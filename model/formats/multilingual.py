"""The languages of models, and where each kind expects language tags: M2M100 and NLLB, mBART, Marian's groups."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from babel.core import get_global
from torch import Tensor

from model.checkpoint_config import CheckpointConfig, CheckpointError, Direction, LanguageHint
from model.config import ModelConfig
from model.formats.checked_source import Imported, languages_unknown, read_json
from model.formats.vocabulary import Vocabulary
from model.tokenizer import Prompt, Tokenizer

_LANGUAGE_TAG: Final = re.compile(
    r"__(?P<iso>[a-z]{2,3})__|(?P<flores>[a-z]{3}_[A-Z][a-z]{3})|(?P<mbart>[a-z]{2}_[A-Z]{2})"
)
_MARIAN_TAG: Final = re.compile(r">>(.+)<<")
_LANGUAGE: Final = re.compile("[a-z]{2,3}")


class Parts(NamedTuple):
    """A checkpoint of another format, without its languages."""

    directory: Path
    vocabulary: Vocabulary
    config: ModelConfig
    weights: dict[str, Tensor]

    def imported(self, prompt: Prompt, **languages: Any) -> Imported:
        """Return the checkpoint with its prompt, and its `directions` or `languages`."""
        described = CheckpointConfig(**languages, prompt=prompt, model=self.config)
        return Imported(described, self.weights, Tokenizer(self.vocabulary.files, prompt))


def one_pair(parts: Parts, hint: LanguageHint, prompt: Prompt) -> Imported:
    """Import a model of one pair of languages, which the hint has to name."""
    if not hint.source or not hint.target:
        raise languages_unknown(parts.directory)
    return parts.imported(prompt, directions=(Direction(source=hint.source, target=hint.target),))


def tagged_both_sides(parts: Parts) -> Imported:
    """Import M2M100, NLLB-200 or mBART-50: a tag of the source language before the text, and one of the target language
    before its translation."""
    prompt = Prompt(languages=_languages(parts), source_prefix=("{source}",), target_prefix=("{target}",))
    return parts.imported(prompt, languages=tuple(sorted(prompt.languages)))


def source_tag_suffix(parts: Parts, hint: LanguageHint) -> Imported:
    """Import mBART-cc25 or its fine-tunings: the source's tag stands after the text, the target's starts the decoder.

    So it translates into one language: the hint's, or else that of `decoder_start_token_id`.
    """
    prompt = Prompt(languages=_languages(parts), source_prefix=(), source_suffix=("</s>", "{source}"))
    tokenizer = Tokenizer(parts.vocabulary.files, prompt)
    starts = {code: tokenizer.piece_id(piece) for code, piece in prompt.languages.items()}
    target = hint.target or next((code for code, start in starts.items() if start == parts.config.bos_id), None)
    if hint.source is None or target is None:
        raise languages_unknown(parts.directory)
    for code in (hint.source, target):
        if code not in starts:
            raise CheckpointError(f"{parts.directory}: {code} is none of its languages: {', '.join(sorted(starts))}")
    started = parts._replace(config=parts.config.model_copy(update={"bos_id": starts[target]}))
    return started.imported(prompt, directions=(Direction(source=hint.source, target=target),))


def target_tag_prefix(parts: Parts, hint: LanguageHint) -> Imported:
    """Import Marian: a tag of the target language before the text, where a model has several."""
    source, target = (_named(parts.directory, place, given) for place, given in enumerate(hint))
    tags = codes_of(tag[1] for piece in parts.vocabulary.special if (tag := _MARIAN_TAG.fullmatch(piece)))
    targets = list(tags) if tags else [target]
    if source is None or None in targets:
        raise languages_unknown(parts.directory)
    directions = tuple(Direction(source=source, target=each) for each in targets if each and each != source)
    prompt = Prompt(languages={code: f">>{name}<<" for code, name in tags.items()})
    return parts.imported(prompt, directions=directions)


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


def _languages(parts: Parts) -> dict[str, str]:
    """Return each language's tag by its code."""
    names = _language_tags(parts.vocabulary.special)
    languages = {code: names[name] for code, name in codes_of(names).items()}
    if len(languages) < 2:
        raise CheckpointError(f"{parts.directory}: no language tokens are found in the tokenizer's files")
    return languages


def _language_tags(pieces: Iterable[str]) -> dict[str, str]:
    return {found[found.lastgroup or ""]: piece for piece in pieces if (found := _LANGUAGE_TAG.fullmatch(piece))}


def tokenizer_class(directory: Path) -> str:
    """Return the tokenizer's class, "" if the files do not name one."""
    path = directory / "tokenizer_config.json"
    return str(read_json(path).get("tokenizer_class", "")) if path.exists() else ""


def codes_of(names: Iterable[str]) -> dict[str, str]:
    """Return the model's name of each language by its code; without groups of languages, like `ROMANCE`.

    The script, or the country, is part of the code where there are several of the same language. Languages that BCP 47
    has one code for, as for `twi` and `aka`, keep the codes that they have in the model. Of what remains equal the
    first counts.
    """
    split = {name: name.replace("-", "_").split("_") for name in names}
    languages = {name: parts[0].lower() for name, parts in split.items() if _LANGUAGE.fullmatch(parts[0].lower())}
    shared = Counter(map(_alias, {*languages.values()}))
    short = {name: _alias(each) if shared[_alias(each)] == 1 else each for name, each in languages.items()}
    common = Counter(short.values())
    codes: dict[str, str] = {}
    for name, language in short.items():
        rest = [part for part in split[name][1:] if part != "XX"]
        codes.setdefault("-".join([language, *rest]) if common[language] > 1 else language, name)
    return codes


def _alias(language: str) -> str:
    """Return the code that replaces a language's, unless it is more than a language: that of `prs` is `fa_AF`."""
    alias = str(get_global("language_aliases").get(language, language))
    return alias if _LANGUAGE.fullmatch(alias) else language
