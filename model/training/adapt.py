"""Adaptation of a model to somebody's own texts: the experiment that its checkpoint implies, run and measured.

So that the model does not forget, it also learns translations of general text (replay). Knows no formats of texts:
pairs come in, a checkpoint and its figures come out.
"""

import hashlib
import json
import logging
import re
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import sentencepiece
from pydantic import ValidationError
from rich.console import Console
from rich.progress import Progress
from safetensors import SafetensorError
from safetensors.torch import load_file

from model.checkpoint import load_model, save_checkpoint
from model.checkpoint_config import (
    WEIGHTS_FILE,
    Direction,
    LanguageHint,
    Origin,
    content_id,
    load_config,
    load_tokenizer,
)
from model.tokenizer import TRAINED_FILE, Tokenizer
from model.training.config import Corpus, DataConfig, OptimiserConfig, TokenizerConfig, TrainConfig
from model.training.corpora import Pair, load_corpus, read_pairs
from model.training.evaluate import (
    DecodingOptions,
    Evaluation,
    EvaluationOptions,
    evaluate,
    load_translator,
    translate_all,
)
from model.training.state import TrainingError
from model.training.train import RunOptions, is_finished, train

logger = logging.getLogger(__name__)

LEAST_UNITS: Final = 200
"""A tenth of fewer cannot tell a gain from chance."""
_KEPT_SHARE: Final = 0.1
_MOST_KEPT: Final = 500
"""More would say little more, and their translation takes time."""
_MOST_REPLAYED: Final = 8_000
_REPLAYED_A_UNIT: Final = 1.5
_OWN_WORD: Final = 3
"""A word that so many units have, and no general sentence, is the owner's."""
OPTIMISER: Final[dict[str, Any]] = {
    "learning_rate": 1e-3,
    "warmup_steps": 30,
    "max_steps": 20_000,
    "batch_tokens": 2048,
    "average_decay": 0.98,
    "validate_every": 50,
    "patience": 4,
}
"""Small steps, as minutes on one core are few hundred of them."""
_START_SHARE: Final = 0.3
"""Costs a tenth of the gain, and keeps half of what would be forgotten."""
_MOST_PIECES: Final = 1.5
"""More tokens that the tokenizer makes of a translation, for each that the model wrote, are other ones."""
_LONGEST_PIECE: Final = 100
"""Bytes, so that the length of a piece's message is one byte."""
_SHIPPED: Final = Path(__file__).parent / "pairs"


class Texts(NamedTuple):
    """Pairs to learn, pairs of general text, whose translation should stay as good, and pairs to measure by alone."""

    units: Sequence[Pair]
    general: Sequence[Pair] = ()
    data: Sequence[Pair] = ()


class AdaptOptions(NamedTuple):
    """Options of a call; `force` also learns from fewer than `LEAST_UNITS`, `name` is what the user calls the model."""

    minutes: float = 30.0
    force: bool = False
    name: str = ""


class Comparison(NamedTuple):
    """The translations of pairs that the model did not learn, before and after, and their scores."""

    pairs: list[Pair]
    texts: tuple[list[str], list[str]]
    bleu: tuple[float, float]
    chrf: tuple[float, float]
    own_words: frozenset[str] = frozenset()
    """Words of the target language that the owner's texts repeat, and general text does not have."""

    def figures(self) -> list[tuple[str, str, str]]:
        """Return name, value before and value after of each score, of exact matches, and of the owner's words."""
        targets = [pair.target for pair in self.pairs]
        wanted = [_words(target) & self.own_words for target in targets]
        own = [sum(len(_words(text) & some) for text, some in zip(texts, wanted, strict=True)) for texts in self.texts]
        exact = [sum(map(str.__eq__, texts, targets)) for texts in self.texts]
        rows = [
            *((name, *(f"{value:.1f}" for value in pair)) for name, pair in (("BLEU", self.bleu), ("chrF", self.chrf))),
            ("exact matches", *map(str, exact)),
            (f"your own words, of {sum(map(len, wanted))}", *map(str, own)),
        ]
        return [(name, before, after) for name, before, after in rows]


class Adapted(NamedTuple):
    """The new checkpoint; the comparisons of the units that were kept back, and of general text if it was given."""

    checkpoint: Path
    comparisons: dict[str, Comparison]


def adapt(parent: Path, direction: Direction, texts: Texts, output: Path, options: AdaptOptions) -> Adapted | None:
    """Train a checkpoint on `texts`; returns None if SIGTERM or Ctrl-C stopped it: the same call goes on.

    `output` gets a run (`train`), whose `checkpoint` serves. A tenth of the units is kept back, chosen by the sources
    alone, and decides when to stop. Raises `TrainingError` for too few units and for a model that cannot be trained,
    `ValueError` for an output of other texts or another model, `CheckpointError`, `MissingExtraError` and `OSError`.
    """
    run = _Adaptation(parent, direction, output / "texts", options.minutes)
    data = run.readable("data", texts.data)
    run.write("data", data)
    asked = {pair.source for pair in data}
    units = run.filtered("units", (pair for pair in texts.units if pair.source not in asked))
    if len(units) < LEAST_UNITS and not options.force:
        raise TrainingError(
            f"{len(units)} units are left, and {LEAST_UNITS} are needed: a tenth of fewer is too small to show whether "
            "the model gained or only learned them by heart; --force learns from them all the same"
        )
    learned, kept = _split(units)
    general = texts.general or shipped_pairs(direction)
    _, tested = _split(run.filtered("general", (pair for pair in general if all(pair))))
    run.write("learned", learned)
    run.write("kept", kept)
    run.write("tested", tested)
    logger.info("%d units to learn, %d kept back", len(learned), len(kept))
    measured = {f"your texts, {len(kept)} units kept back": run.file("kept")}
    if tested:
        measured[f"general text, {len(tested)} units"] = run.file("tested")
    if data:
        measured[f"test data, {len(data)} units"] = run.file("data")
    before = [run.evaluate(parent, path) for path in measured.values()]
    run.complete_tokenizer(before[0])
    held_back = asked | {pair.source for pair in tested}
    run.replay([pair for pair in general if pair.source not in held_back], len(learned))
    config = run.experiment()
    checkpoint = train(config, run.directory, output, RunOptions(workers=0))
    if not is_finished(config, output):
        return None
    run.describe(checkpoint, options.name)
    after = [run.evaluate(checkpoint, path) for path in measured.values()]
    own_words = run.own_words()
    compared = zip(measured.values(), before, after, strict=True)
    return Adapted(checkpoint, dict(zip(measured, (_compared(*each, own_words) for each in compared), strict=True)))


def shipped_pairs(direction: Direction) -> list[Pair]:
    """Return the general text of model/training/pairs in a source language, none of most.

    A translation into another language than the direction's is left empty.
    """
    found: list[Pair] = []
    for path in sorted(_SHIPPED.glob("*.tsv*")):
        languages = path.name.split(".")[1].split("-")
        if direction.source in languages:
            sides = [dict(zip(languages, pair, strict=True)) for pair in read_pairs(path)]
            found += [Pair(side[direction.source], side.get(direction.target, "")) for side in sides]
    return found


def write_whole(path: Path, parts: Iterable[str]) -> None:
    """Write a file, or leave it as it is and raise `TrainingError`."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(parts)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise TrainingError(f"{path} cannot be written: {error.strerror}; free some space, and run it again") from None


def _order(source: str) -> bytes:
    """A random order that is always the same."""
    return hashlib.sha256(source.encode()).digest()


def _split(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Return most pairs to learn, and the others to measure by, in a random order."""
    ordered = sorted(pairs, key=lambda pair: _order(pair.source))
    count = min(_MOST_KEPT, max(1, round(_KEPT_SHARE * len(pairs))))
    return ordered[count:], ordered[:count]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _with_target(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that also splits texts at the pieces of its vocabulary that its SentencePiece model lacks.

    A vocabulary names the frequent pieces first, which tells a unigram model enough: the score is by Zipf's law.
    """
    model = tokenizer.files[TRAINED_FILE]
    own = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocabulary: list[str] = json.loads(tokenizer.files["vocabulary.json"])
    completed = model
    for number, piece in enumerate(vocabulary, 1):
        text = piece.encode()
        if own.is_unknown(own.piece_to_id(piece)) and len(text) < _LONGEST_PIECE and not piece.startswith("<"):
            # Messages of protobuf are joined as their bytes: this adds a `piece` to the model, with text and score.
            score = struct.pack("<f", -log(number * log(len(vocabulary))))
            fields = bytes([0x0A, len(text)]) + text + bytes([0x15]) + score
            completed += bytes([0x0A, len(fields)]) + fields
    files = {"source.model": model, "target.model": completed, "vocabulary.json": tokenizer.files["vocabulary.json"]}
    return Tokenizer(files, tokenizer.prompt)


def _compared(path: Path, before: Evaluation, after: Evaluation, own_words: frozenset[str]) -> Comparison:
    return Comparison(
        [*read_pairs(path)],
        (before.hypotheses, after.hypotheses),
        (before.bleu.value, after.bleu.value),
        (before.chrf.value, after.chrf.value),
        own_words,
    )


class _Adaptation:
    """The files of texts in `directory`, and what is done with them."""

    def __init__(self, parent: Path, direction: Direction, directory: Path, minutes: float) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._parent = parent
        self._described = load_config(parent)
        self._direction = direction
        self._minutes = minutes
        self._identity = content_id(parent)
        if self._described.has_shortlist:
            logger.info("the model's shortlist is left off: it does not know the words of other texts")
        self._replayed = ""
        self._repeat = 0.0
        """The weight of what is replayed."""
        self._stored_as: Literal["float16", "int8"] = "float16"
        self.experiment()  # a model that cannot be trained is refused here, and a damaged one in the next line
        if load_model(parent).stored_scales:
            self._stored_as = "int8"

    def file(self, name: str) -> Path:
        # Named after the parent: a run that was stopped must not go on with another model.
        return self.directory / f"{name}.{self._identity[:12]}.tsv"

    def write(self, name: str, pairs: Iterable[Pair]) -> None:
        write_whole(self.file(name), (f"{source}\t{target}\n" for source, target in pairs))

    def filtered(self, name: str, pairs: Iterable[Pair]) -> list[Pair]:
        """Return the pairs that pass the trainer's filters; log how many do not, by reason."""
        self.write(name, pairs)
        kept, dropped = load_corpus(Corpus(path=Path(self.file(name).name)), self.experiment(), self.directory)
        for reason, count in dropped.most_common():
            logger.info("%s: %d left out: %s", name, count, reason)
        return self.readable(name, kept)

    def readable(self, name: str, pairs: Sequence[Pair]) -> list[Pair]:
        """Return the pairs that the parent can read; log how many it cannot."""
        tokenizer, longest = load_tokenizer(self._parent), self._described.model.max_positions
        languages = self._direction.codes()[::-1]
        kept = [pair for pair in pairs if len(tokenizer.encode(pair.source, *languages)) <= longest]
        if len(kept) < len(pairs):
            logger.info("%s: %d left out: longer than the model reads", name, len(pairs) - len(kept))
        return kept

    def replay(self, general: Iterable[Pair], units: int) -> None:
        """Write general text, which the parent translates where nobody has, unless a stopped call has written it."""
        chosen = sorted(dict(general).items(), key=lambda pair: _order(pair[0]))[:_MOST_REPLAYED]
        self._replayed = f"replayed-{hashlib.sha256(repr(chosen).encode()).hexdigest()[:8]}"
        if not self.file(self._replayed).exists():
            translated = self._translated([source for source, target in chosen if not target])
            pairs = (Pair(source, target or translated.get(source, "")) for source, target in chosen)
            self.write(self._replayed, filter(all, pairs))
        if count := sum(1 for _ in read_pairs(self.file(self._replayed))):
            self._repeat = max(_REPLAYED_A_UNIT * units / count, 0.01)
        logger.info("%d sentences of general text are replayed", count)

    def _translated(self, sentences: Sequence[str]) -> dict[str, str]:
        """Return the parent's translations of those that it can read and end."""
        if not sentences:
            return {}
        translator = load_translator(self._parent, "int8", LanguageHint(*self._direction.codes()))
        longest = translator.model.config.max_positions
        sources = [each for each in sentences if len(translator.source_ids([each])[0]) <= longest]
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("translating general text", total=len(sources))
            found = translate_all(translator, sources, DecodingOptions(), lambda count: bar.advance(task, count))
        return {source: " ".join(each.text.split()) for source, each in zip(sources, found, strict=True) if each.ended}

    def complete_tokenizer(self, before: Evaluation) -> None:
        """Give a parent with a tokenizer of its source alone one of its target; raises `TrainingError` if it stays bad.

        Argos has made such packages of models with a tokenizer for each language. What the parent writes tells.
        """
        if self._extra_pieces(before) <= _MOST_PIECES:
            return
        tokenizer = load_tokenizer(self._parent)
        if tokenizer.files.keys() == {TRAINED_FILE, "vocabulary.json"}:
            directory = self.directory / "parent"
            weights = load_file(self._parent / WEIGHTS_FILE)
            try:
                save_checkpoint(directory, self._described, weights, _with_target(tokenizer), None)
            except (OSError, SafetensorError) as error:
                raise TrainingError(f"{directory} cannot be written: {error}") from None
            self._parent = directory
            logger.info("the model has no tokenizer for %s: its vocabulary makes one", self._direction.target)
        if self._extra_pieces(before) > _MOST_PIECES:
            raise TrainingError(
                f"{self._parent} has no tokenizer for {self._direction.target}: take the model as it was published"
            )

    def _extra_pieces(self, before: Evaluation) -> float:
        """Return the number of tokens that the tokenizer makes of a translation, for each that the parent wrote."""
        targets = load_tokenizer(self._parent).encode_targets(before.hypotheses, *self._direction.codes()[::-1])
        return sum(map(len, targets)) / before.tokens

    def own_words(self) -> frozenset[str]:
        """Return the words that several learned translations have, and those of general text do not."""
        seen = Counter(word for pair in read_pairs(self.file("learned")) for word in _words(pair.target))
        general = {word for pair in read_pairs(self.file(self._replayed)) for word in _words(pair.target)}
        return frozenset(word for word, count in seen.items() if count >= _OWN_WORD and word not in general)

    def experiment(self) -> TrainConfig:
        """Return the experiment that the parent's checkpoint implies. Raises `TrainingError`."""
        model = self._described.model
        corpora = [Corpus(path=Path(self.file("learned").name))]
        if self._repeat:
            corpora.append(Corpus(path=Path(self.file(self._replayed).name), repeat=self._repeat))
        # Markup, and apostrophes as the owner writes them, are to be learned.
        kept = [Corpus(path=Path(self.file("kept").name))]
        try:
            return TrainConfig(
                source_language=self._direction.source,
                target_language=self._direction.target,
                data=DataConfig(train=corpora, validation=kept, check_content=False, tidy=False),
                tokenizer=TokenizerConfig(vocab_size=model.vocab_size),
                model=model,
                optimiser=OptimiserConfig(**OPTIMISER, minutes=self._minutes, row_tokens=min(128, model.max_positions)),
                start_from=self._parent,
                start_share=_START_SHARE,
                stored_as=self._stored_as,
            )
        except ValidationError as error:
            reasons = "; ".join(
                ": ".join([*map(str, each["loc"]), each["msg"].removeprefix("Value error, ")])
                for each in error.errors()
            )
            raise TrainingError(f"{self._parent} cannot be trained here: {reasons}") from None

    def evaluate(self, checkpoint: Path, test: Path) -> Evaluation:
        """Score a checkpoint as it serves: in int8, but without a beam."""
        return evaluate(
            checkpoint, test, EvaluationOptions(precision="int8", hint=LanguageHint(*self._direction.codes()))
        )

    def describe(self, checkpoint: Path, name: str) -> None:
        """Write into a new checkpoint what the trainer does not know: its parent, and the parent's longest sentence."""
        theirs = self._described
        known = theirs.origin
        origin = Origin(
            name=f"adapted from {known.name if known else name or self._parent.name}",
            revision=known.revision if known else self._identity,
            url=known.url if known else "",
            licence=known.licence if known else None,
            sha256=theirs.sha256,
        )
        update = {"max_sentence_tokens": theirs.max_sentence_tokens, "origin": origin}
        config = load_config(checkpoint).model_copy(update=update)
        write_whole(checkpoint / "config.json", [config.model_dump_json(indent=2) + "\n"])
