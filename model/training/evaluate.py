"""Translation of whole files, and the evaluation of a checkpoint by the scores of its translations."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple

from rich.console import Console
from rich.progress import Progress
from torch import nn

from model.checkpoint import load_model
from model.checkpoint_config import ANY, CheckpointConfig, Direction, LanguageHint, load_config, load_tokenizer
from model.decoding import beam_decode, greedy_decode
from model.quantized_linear import Int8Linear, PrepackedLinear, replace_linears
from model.tokenizer import Tokenizer
from model.training.corpora import read_pairs
from model.training.device import find_device
from model.training.scores import Score, Scorer, Tokenize
from model.training.signs import count_signs
from model.transformer import Transformer

Precision = Literal["float32", "int8"]

# Lines sorted by length together: enough for batches of alike lengths, few enough to hold in memory.
_CHUNK = 10_000


@dataclass(frozen=True)
class DecodingOptions:
    """Options of the search; `beam_size` 1 is greedy, `batch_size` is in sentences."""

    beam_size: int = 1
    length_penalty: float = 1.0
    batch_size: int = 64


_MOST_NAMED: Final = 20  # directions in an error's message


@dataclass(frozen=True)
class EvaluationOptions:
    """The scored part of a test set, and the conventions of the scores.

    `limit`: only the first lines. `lowercase`: case does not count in the scores; `lowercase_source`: the
    model reads lower-cased sources, as one that was trained on such text must. `tokenize` is for BLEU:
    sacrebleu's "13a" or "intl", or "moses": hypotheses and references tokenised by Moses' rules for the
    target language, as in the papers that use Multi30k. `hint` must say of the languages what the model
    leaves open.
    """

    decoding: DecodingOptions = DecodingOptions()
    precision: Precision = "float32"
    device: str = "cpu"
    hint: LanguageHint = ANY
    limit: int | None = None
    lowercase: bool = False
    lowercase_source: bool = False
    tokenize: Tokenize = "13a"


class Translation(NamedTuple):
    """A translated text, and how many tokens were generated for it, eos included."""

    text: str
    tokens: int
    ended: bool = True
    """True if the translation was not cut at the model's length."""


class Evaluation(NamedTuple):
    """Scores, the translations in the order of the test set, and what decoding them took."""

    bleu: Score
    chrf: Score
    signs: Counter[str]
    """Number of translations that have each [sign](signs.py) of a bad one."""
    reference_signs: Counter[str]
    hypotheses: list[str]
    seconds: float
    tokens: int

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


_LINEARS: Final[dict[Precision, Callable[[nn.Linear], nn.Module]]] = {
    "float32": lambda linear: PrepackedLinear(linear) if PrepackedLinear.is_available() else linear,
    "int8": Int8Linear,
}


@dataclass(frozen=True)
class OfflineTranslator:
    """A model with its tokenizer, for one direction."""

    model: Transformer
    tokenizer: Tokenizer
    direction: Direction

    def source_ids(self, texts: list[str]) -> list[list[int]]:
        """Ids that the encoder reads."""
        return self.tokenizer.encode_batch(texts, self.direction.target, self.direction.source)

    def prompt(self) -> list[int]:
        """Ids that the decoder reads after bos."""
        return self.tokenizer.target_prefix(self.direction.target, self.direction.source)


def load_translator(
    checkpoint: Path, precision: Precision = "float32", hint: LanguageHint = ANY, device: str = "cpu"
) -> OfflineTranslator:
    """Load a checkpoint; on a CPU all linear layers are replaced, the output projection too, the embedding not.

    Raises `CheckpointError`, and `ValueError` for a device that is not there, and languages that the model lacks,
    or that have to be given.
    """
    direction = find_direction(load_config(checkpoint), hint)
    model = load_model(checkpoint).to(find_device(device))
    if precision == "int8" or device == "cpu":
        replace_linears(model, _LINEARS[precision])
    return OfflineTranslator(model, load_tokenizer(checkpoint), direction)


def find_direction(config: CheckpointConfig, hint: LanguageHint) -> Direction:
    """Return the direction that a hint means; raises `ValueError` where it means none, or several."""
    every = config.all_directions()
    possible = [each for each in every if hint.source in (None, each.source) and hint.target in (None, each.target)]
    # A model that does not read the source's language does not need to know it.
    distinct = {each.target if config.prompt.ignores_source else each for each in possible}
    if len(distinct) != 1:
        requested = "-".join(code or "?" for code in hint)
        names = ", ".join(map(str, every[:_MOST_NAMED])) + (", ..." if len(every) > _MOST_NAMED else "")
        advice = "; say which source and target" if distinct else ""
        raise ValueError(f"languages {requested}: the model translates {names}{advice}")
    return possible[0]


def translate_all(
    translator: OfflineTranslator,
    texts: Iterable[str],
    options: DecodingOptions,
    progress: Callable[[int], None] = lambda count: None,
) -> Iterator[Translation]:
    """Translate any number of texts; yields their translations in order, some thousands at a time.

    `progress` is called with the number of texts of each batch. Raises `ValueError`, naming the lines
    (counted from 1), for texts over the model's length, before their chunk is translated.
    """
    remaining = iter(texts)
    first = 1
    while chunk := list(islice(remaining, _CHUNK)):
        sources = translator.source_ids(chunk)
        _check_lengths(sources, first, translator.model.config.max_positions)
        translations = [Translation("", 0)] * len(chunk)
        # Alike lengths together, the longest first: little padding, and the time left is not underestimated.
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        for start in range(0, len(order), options.batch_size):
            batch = order[start : start + options.batch_size]
            for i, ids in zip(batch, _decode(translator, [sources[i] for i in batch], options), strict=True):
                ended = ids[-1] == translator.model.config.eos_id
                translations[i] = Translation(translator.tokenizer.decode(ids), len(ids), ended)
            progress(len(batch))
        yield from translations
        first += len(chunk)


def translate_with_progress(
    translator: OfflineTranslator, texts: Sequence[str], options: DecodingOptions, description: str
) -> list[Translation]:
    """Translate texts as `translate_all` does; on a terminal a bar shows how many are done."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=len(texts))
        return list(translate_all(translator, texts, options, lambda count: bar.advance(task, count)))


def _check_lengths(sources: Sequence[Sequence[int]], first: int, longest: int) -> None:
    too_long = [number for number, source in enumerate(sources, start=first) if len(source) > longest]
    if too_long:
        raise ValueError(f"lines {too_long} have more than {longest} tokens, the model's limit")


def _decode(translator: OfflineTranslator, sources: list[list[int]], options: DecodingOptions) -> list[list[int]]:
    model, prompt = translator.model, translator.prompt()
    limit = model.config.max_positions - len(prompt)
    if options.beam_size == 1:
        return greedy_decode(model, sources, limit, prompt)
    results = beam_decode(model, sources, limit, options.beam_size, options.length_penalty, prompt=prompt)
    return [best.ids for best, *_ in results]


def evaluate(checkpoint: Path, test: Path, options: EvaluationOptions = EvaluationOptions()) -> Evaluation:
    """Translate the sources of `test` (TSV) and score the result against its second column.

    Raises `CheckpointError`, `CorpusError`, `ValueError` for a sentence over the model's length or a
    target language that it lacks, and `MissingExtraError` without sacrebleu, or for "moses" without sacremoses.
    """
    pairs = list(islice(read_pairs(test), options.limit))
    if not pairs:
        raise ValueError(f"{test} is empty")
    translator = load_translator(checkpoint, options.precision, options.hint, options.device)
    # Before the long work: what it needs may be missing.
    scorer = Scorer(options.tokenize, translator.direction.target, lowercase=options.lowercase)
    sources = [pair.source.lower() if options.lowercase_source else pair.source for pair in pairs]
    start = time.perf_counter()
    try:
        translations = translate_with_progress(translator, sources, options.decoding, "translating")
    except ValueError as error:
        raise ValueError(f"{test}: {error}") from None
    seconds = time.perf_counter() - start
    hypotheses = [translation.text for translation in translations]
    references = [pair.target for pair in pairs]
    bleu, chrf = scorer.score(hypotheses, references)
    languages = translator.direction.codes()
    signs, reference_signs = (
        count_signs(zip(sources, side, strict=True), languages) for side in (hypotheses, references)
    )
    tokens = sum(translation.tokens for translation in translations)
    return Evaluation(bleu, chrf, signs, reference_signs, hypotheses, seconds, tokens)
