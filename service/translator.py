"""What a model can translate: languages and limits. Knows nothing of HTTP, nor of how an engine works."""

from collections.abc import Sequence
from typing import Final

from model.manifest import CheckpointConfig, Direction
from model.tokenizer import Tokenizer
from service.engine.pool import EnginePool
from service.errors import InvalidRequest, TooLong
from service.preparation import Preparation, prepare
from service.text.detection import Detected, rank_languages, words_of_html
from service.translation import Job, Limits, Translation, TranslationOptions

AUTOMATIC: Final = "auto"
"""In the place of a source language: that is detected, for each text by itself."""


class Translator:
    """One model's languages and limits around a pool of engines."""

    def __init__(self, config: CheckpointConfig, tokenizer: Tokenizer, pool: EnginePool, limits: Limits) -> None:
        self.directions = config.all_directions()
        self._tokenizer = tokenizer
        self._pool = pool
        self.limits = limits
        self.running: set[Translation] = set()
        """Translations not yet closed, whether an engine works for them or only their reader is slow."""

    def start(self, texts: Sequence[str], source: str, target: str, options: TranslationOptions) -> Translation:
        """Check and submit; the caller must `close` what it gets.

        Raises `InvalidRequest`, `TooLong` and `QueueFull`: before anything has been produced.
        """
        self._check(texts, source, target, options)
        self._pool.admit()
        detected = [self._detect(text, target, options) for text in texts] if source == AUTOMATIC else []
        sources = [each.language for each in detected] or [source] * len(texts)
        preparations = {
            each: Preparation(self._tokenizer, self.limits, Direction(source=each, target=target), options)
            for each in set(sources)
        }
        work, forced_ids = prepare(texts, [preparations[each] for each in sources], options.target_prefix)
        job = Job(work, forced_ids, len(texts), next(iter(sources), source), target, options, detected)
        translation = Translation(job, self._tokenizer, self._pool, self.limits, self.running.discard)
        self.running.add(translation)
        return translation

    def detect(self, text: str) -> list[Detected]:
        """The languages that can be translated, the most probable one of the text first."""
        return rank_languages(text, {direction.source for direction in self.directions})

    def _detect(self, text: str, target: str, options: TranslationOptions) -> Detected:
        possible = {direction.source for direction in self.directions if direction.target == target}
        return rank_languages(words_of_html(text) if options.is_html else text, possible)[0]

    def _check(self, texts: Sequence[str], source: str, target: str, options: TranslationOptions) -> None:
        self._check_direction(source, target)
        limits = self.limits
        if len(texts) > limits.max_texts:
            raise TooLong("q", f"{len(texts)} texts, the limit is {limits.max_texts}")
        if (characters := sum(map(len, texts))) > limits.max_characters:
            raise TooLong("q", f"{characters} characters, the limit is {limits.max_characters}")
        if options.max_new_tokens is not None and options.max_new_tokens > limits.max_new_tokens:
            raise InvalidRequest("max_new_tokens", f"the limit is {limits.max_new_tokens}")
        if options.beam.alternatives >= limits.max_beam_size:
            asked, most = options.beam.alternatives, limits.max_beam_size - 1
            raise InvalidRequest("alternatives", f"{asked} are asked for, the limit is {most}")
        if options.beam.size > limits.max_beam_size:
            raise InvalidRequest("beam_size", f"{options.beam.size} is asked for, the limit is {limits.max_beam_size}")

    def _check_direction(self, source: str, target: str) -> None:
        any_source = source == AUTOMATIC
        targets = sorted({each.target for each in self.directions if any_source or each.source == source})
        if not targets:
            sources = ", ".join(sorted({direction.source for direction in self.directions}))
            raise InvalidRequest("source", f"{source} is not supported; available: {AUTOMATIC}, {sources}")
        if target not in targets:
            raise InvalidRequest("target", f"{target} is not supported; available: {', '.join(targets)}")
