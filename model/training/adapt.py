"""Adaptation of a model to somebody's own texts: the experiment that its checkpoint implies, run and measured.

So that the model does not forget, it also learns translations of general text (replay). Knows no formats of texts:
pairs come in, a checkpoint and its figures come out.
"""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import ValidationError

from model.checkpoint import load_model
from model.checkpoint_config import Direction, LanguageHint, Origin, content_id, load_config, load_tokenizer
from model.training.comparison import Comparison, find_own_words
from model.training.config import Corpus, DataConfig, OptimiserConfig, TokenizerConfig, TrainConfig, problem_of
from model.training.corpora import CorpusFilter, Pair, read_pairs
from model.training.evaluate import (
    DecodingOptions,
    Evaluation,
    EvaluationOptions,
    evaluate,
    load_translator,
    translate_with_progress,
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
    asked = {pair.source for pair in data}
    units = run.filtered("units", [pair for pair in texts.units if pair.source not in asked])
    if len(units) < LEAST_UNITS and not options.force:
        raise TrainingError(
            f"{len(units)} units are left, and {LEAST_UNITS} are needed: a tenth of fewer is too small to show whether "
            "the model gained or only learned them by heart; --force learns from them all the same"
        )
    learned, kept = _split(units)
    general = texts.general or shipped_pairs(direction)
    _, tested = _split(run.filtered("general", [pair for pair in general if all(pair)]))
    logger.info("%d units to learn, %d kept back", len(learned), len(kept))
    run.write("learned", learned)
    measured = {f"your texts, {len(kept)} units kept back": run.write("kept", kept)}
    if tested:
        measured[f"general text, {len(tested)} units"] = run.write("tested", tested)
    if data:
        measured[f"test data, {len(data)} units"] = run.write("data", data)
    before = {title: run.evaluate(parent, path) for title, path in measured.items()}
    run.check_tokenizer(next(iter(before.values())))
    held_back = asked | {pair.source for pair in tested}
    replayed = run.replay([pair for pair in general if pair.source not in held_back], len(learned))
    config = run.experiment()
    checkpoint = train(config, run.directory, output, RunOptions(workers=0))
    if not is_finished(config, output):
        return None
    run.describe(checkpoint, options.name)
    words = find_own_words(learned, replayed)
    compared = {
        title: Comparison([*read_pairs(path)], before[title], run.evaluate(checkpoint, path), words)
        for title, path in measured.items()
    }
    return Adapted(checkpoint, compared)


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


class _Adaptation:
    """The files of texts in `directory`, and what is done with them."""

    def __init__(self, parent: Path, direction: Direction, directory: Path, minutes: float) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._parent = parent
        self._described = load_config(parent)
        self._tokenizer = load_tokenizer(parent)
        self._hint = LanguageHint(*direction.codes())
        self._direction = direction
        self._minutes = minutes
        self._identity = content_id(parent)
        if self._described.has_shortlist:
            logger.info("the model's shortlist is left off: it does not know the words of other texts")
        self._replayed: list[Corpus] = []
        self._stored_as: Literal["float16", "int8"] = "float16"
        self.experiment()  # a model that cannot be trained is refused here, and a damaged one in the next line
        if load_model(parent).stored_scales:
            self._stored_as = "int8"

    def _file(self, name: str) -> Path:
        # Named after the parent: a run that was stopped must not go on with another model.
        return self.directory / f"{name}.{self._identity[:12]}.tsv"

    def _corpus(self, name: str, repeat: float = 1.0) -> Corpus:
        return Corpus(path=Path(self._file(name).name), repeat=repeat)

    def write(self, name: str, pairs: Iterable[Pair]) -> Path:
        """Write a corpus; returns its path."""
        path = self._file(name)
        write_whole(path, (f"{source}\t{target}\n" for source, target in pairs))
        return path

    def filtered(self, name: str, pairs: Iterable[Pair]) -> list[Pair]:
        """Return the pairs that pass the trainer's filters; log how many do not, by reason."""
        chosen = CorpusFilter(self._corpus(name), self.experiment(), set())
        kept = [pair for pair in pairs if chosen.keeps(pair)]
        for reason, count in chosen.dropped.most_common():
            logger.info("%s: %d left out: %s", name, count, reason)
        return self.readable(name, kept)

    def readable(self, name: str, pairs: Sequence[Pair]) -> list[Pair]:
        """Return the pairs that the parent can read; log how many it cannot."""
        longest = self._described.model.max_positions
        sources = self._tokenizer.encode_batch([pair.source for pair in pairs], *self._hint[::-1])
        kept = [pair for pair, ids in zip(pairs, sources, strict=True) if len(ids) <= longest]
        if len(kept) < len(pairs):
            logger.info("%s: %d left out: longer than the model reads", name, len(pairs) - len(kept))
        return kept

    def replay(self, general: Iterable[Pair], units: int) -> list[Pair]:
        """Choose general text to learn beside so many units; the parent translates what nobody has translated.

        What a stopped call has written is read again.
        """
        chosen = sorted(dict(general).items(), key=lambda pair: _order(pair[0]))[:_MOST_REPLAYED]
        name = f"replayed-{hashlib.sha256(repr(chosen).encode()).hexdigest()[:8]}"
        if not self._file(name).exists():
            translated = self._translated([source for source, target in chosen if not target])
            pairs = (Pair(source, target or translated.get(source, "")) for source, target in chosen)
            self.write(name, filter(all, pairs))
        replayed = [*read_pairs(self._file(name))]
        if replayed:
            self._replayed = [self._corpus(name, max(_REPLAYED_A_UNIT * units / len(replayed), 0.01))]
        logger.info("%d sentences of general text are replayed", len(replayed))
        return replayed

    def _translated(self, sentences: Sequence[str]) -> dict[str, str]:
        """Return the parent's translations of those that it can read and end."""
        sources = [pair.source for pair in self.readable("general", [Pair(each, "") for each in sentences])]
        if not sources:
            return {}
        translator = load_translator(self._parent, "int8", self._hint)
        found = translate_with_progress(translator, sources, DecodingOptions(), "translating general text")
        return {source: " ".join(each.text.split()) for source, each in zip(sources, found, strict=True) if each.ended}

    def check_tokenizer(self, before: Evaluation) -> None:
        """Refuse a parent whose tokenizer cannot make the tokens that it writes, by a `TrainingError`.

        Argos has made packages with the source's tokenizer alone, of models with one for each language.
        """
        targets = self._tokenizer.encode_targets(before.hypotheses, *self._hint[::-1])
        if sum(map(len, targets)) > _MOST_PIECES * before.tokens:
            raise TrainingError(
                f"{self._parent} has no tokenizer for {self._direction.target}: take the model as it was published"
            )

    def experiment(self) -> TrainConfig:
        """Return the experiment that the parent's checkpoint implies. Raises `TrainingError`."""
        model = self._described.model
        train, validation = [self._corpus("learned"), *self._replayed], [self._corpus("kept")]
        try:
            return TrainConfig(
                source_language=self._direction.source,
                target_language=self._direction.target,
                # Markup, and apostrophes as the owner writes them, are to be learned.
                data=DataConfig(train=train, validation=validation, check_content=False, tidy=False),
                tokenizer=TokenizerConfig(vocab_size=model.vocab_size),
                model=model,
                optimiser=OptimiserConfig(**OPTIMISER, minutes=self._minutes, row_tokens=min(128, model.max_positions)),
                start_from=self._parent,
                start_share=_START_SHARE,
                stored_as=self._stored_as,
                max_sentence_tokens=self._described.max_sentence_tokens,
            )
        except ValidationError as error:
            reasons = "; ".join(map(problem_of, error.errors()))
            raise TrainingError(f"{self._parent} cannot be trained here: {reasons}") from None

    def evaluate(self, checkpoint: Path, test: Path) -> Evaluation:
        """Score a checkpoint as it serves: in int8, but without a beam."""
        return evaluate(checkpoint, test, EvaluationOptions(precision="int8", hint=self._hint))

    def describe(self, checkpoint: Path, name: str) -> None:
        """Write into a new checkpoint what the trainer does not know: its parent."""
        theirs = self._described
        known = theirs.origin
        origin = Origin(
            name=f"adapted from {known.name if known else name or self._parent.name}",
            revision=known.revision if known else self._identity,
            url=known.url if known else "",
            licence=known.licence if known else None,
            sha256=theirs.sha256,
        )
        config = load_config(checkpoint).model_copy(update={"origin": origin})
        write_whole(checkpoint / "config.json", [config.model_dump_json(indent=2) + "\n"])
