"""Sequence-level knowledge distillation (Kim and Rush 2016): text as a larger model would translate it.

A student that learns its teacher's beam search instead of the references has an easier task, since the teacher
translates alike sentences alike.
"""

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from model.checkpoint_config import WEIGHTS_FILE, LanguageHint, load_config, sha256_of
from model.training.config import TrainConfig
from model.training.corpora import check_paths
from model.training.data import Part, load_parts
from model.training.evaluate import (
    DecodingOptions,
    OfflineTranslator,
    Precision,
    load_translator,
    translate_all,
)

logger = logging.getLogger(__name__)


class TeacherOptions(NamedTuple):
    """Decoding, precision and device of the teacher."""

    decoding: DecodingOptions = DecodingOptions(beam_size=4)
    precision: Precision = "float32"
    device: str = "cpu"


_DEFAULT: Final = TeacherOptions()


def distill(
    config: TrainConfig,
    teacher: Path,
    data: Path,
    output: Path,
    options: TeacherOptions = _DEFAULT,
) -> list[Path]:
    """Translate the source side of every training corpus of `config`; returns the files written in `output`.

    Each file is a corpus of the student's config: `source<TAB>translation` lines. Sources over the teacher's length,
    translations that are empty or that never ended, and what is validated on, are left out. An interrupted call,
    repeated, goes on after the last whole line. Raises `CheckpointError`, and `ValueError` for a direction that the
    teacher lacks, a corpus that is not there, and an `output` that holds another experiment's, teacher's or beam's.
    """
    check_paths(config, data)
    lacking = set(config.directions()) - set(load_config(teacher).directions)
    if lacking:
        raise ValueError(f"{teacher} does not translate {', '.join(sorted(map(str, lacking)))}")
    validated = load_parts(config.data.validation, config, data)
    parts = load_parts(config.data.train, config, data, validated)
    output.mkdir(parents=True, exist_ok=True)
    _claim(output, config, teacher, parts, options)
    written = []
    for number, part in enumerate(parts):
        translator = load_translator(teacher, options.precision, LanguageHint(*part.direction.codes()), options.device)
        path = output / f"{number:02}-{part.direction}.tsv"
        if not path.exists():
            _distill(part, translator, options.decoding, path)
        written.append(path)
    return written


def _claim(output: Path, config: TrainConfig, teacher: Path, parts: list[Part], options: TeacherOptions) -> None:
    """Record the inputs of `output`; raise `ValueError` if they differ from the recorded ones."""
    weights = sha256_of(teacher / WEIGHTS_FILE)
    # Not of the files: what is left of them is also the filters' doing, which a newer version may have more of.
    sources = [hashlib.sha256("\n".join(_sources(part)).encode()).hexdigest() for part in parts]
    data = config.model_dump(mode="json", include={"data", "seed", "source_language", "target_language"})
    search = {"precision": options.precision, **asdict(options.decoding)}
    made_of = json.dumps({"teacher": weights, "sources": sources, **search, **data}, indent=2)
    note = output / "distilled-from.json"
    if note.exists() and note.read_text(encoding="utf-8") != made_of:
        raise ValueError(f"{output} holds what another teacher, corpus, experiment or search gave (see {note.name})")
    note.write_text(made_of, encoding="utf-8")


def _sources(part: Part) -> Iterable[str]:
    """Return each source once, in the order of the corpus."""
    return dict.fromkeys(pair.source for pair in part.pairs)


def _distill(part: Part, translator: OfflineTranslator, options: DecodingOptions, path: Path) -> None:
    longest = translator.model.config.max_positions
    sources = [source for source in _sources(part) if len(translator.source_ids([source])[0]) <= longest]
    partial = path.with_suffix(".partial")
    done = _whole_lines(partial)
    logger.info("%s: %d sources, %d of them done before", path.name, len(sources), done)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar, partial.open("a", encoding="utf-8") as file:
        task = bar.add_task(path.name, total=len(sources), completed=done)
        remaining = sources[done:]
        translations = translate_all(translator, remaining, options, lambda count: bar.advance(task, count))
        for source, translation in zip(remaining, translations, strict=True):
            text = translation.text if translation.ended else ""
            file.write(f"{source}\t{' '.join(text.split())}\n")
            file.flush()
    with partial.open(encoding="utf-8", newline="\n") as lines:
        good = [line for line in lines if not line.endswith("\t\n")]
    path.write_text("".join(good), encoding="utf-8")
    partial.unlink()
    logger.info("%s: %d translations, %d left out", path.name, len(good), len(sources) - len(good))


def _whole_lines(partial: Path) -> int:
    """Count the lines that an earlier call wrote; half a line at the end is cut off."""
    if not partial.exists():
        return 0
    content = partial.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    partial.write_bytes(whole)
    return whole.count(b"\n")
