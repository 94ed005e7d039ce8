"""What a model can translate: languages, limits, sentences, ids. Knows nothing of HTTP, nor of how an engine works."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from model.manifest import CheckpointConfig, Direction
from model.tokenizer import Tokenizer
from service.engine.pool import EnginePool
from service.errors import InvalidRequest, TooLong
from service.segmentation import Segment, split
from service.translation import Job, Limits, Translation, TranslationOptions, Work, default_target_length


class Translator:
    """One model's languages and limits around a pool of engines."""

    def __init__(self, config: CheckpointConfig, tokenizer: Tokenizer, pool: EnginePool, limits: Limits) -> None:
        self.directions = config.all_directions()
        self._tokenizer = tokenizer
        self._pool = pool
        self.limits = limits
        self.running: set[Translation] = set()
        """Translations not yet closed, whether an engine works for them or only their reader is slow."""

    async def start(self, texts: Sequence[str], source: str, target: str, options: TranslationOptions) -> Translation:
        """Check, split and submit; the caller must `close` what it gets.

        Raises `InvalidRequest`, `TooLong` and `QueueFull`: before anything has been produced.
        """
        self._check(texts, source, target, options)
        self._pool.admit()
        # A long text takes a while to split; others must not wait for it, and may be admitted meanwhile.
        job = await asyncio.to_thread(self._job, texts, source, target, options)
        self._pool.admit()
        translation = Translation(job, self._tokenizer, self._pool, self.limits, self.running.discard)
        self.running.add(translation)
        return translation

    def _job(self, texts: Sequence[str], source: str, target: str, options: TranslationOptions) -> Job:
        work = [
            each
            for index, text in enumerate(texts)
            for each in self._work(index, split(text, source), Direction(source=source, target=target), options)
        ]
        prompt = self._tokenizer.target_prefix(target, source)
        return Job(work, self._prefix(work, options), len(texts), source, target, options, prompt)

    def _work(
        self, index: int, segments: Iterable[Segment], direction: Direction, options: TranslationOptions
    ) -> Iterator[Work]:
        offset = 0
        for segment in segments:
            ids = self._encode(segment, direction)
            start = offset + len(segment.before)
            wanted = ids and options.alignment
            spans = self._tokenizer.spans(segment.sentence, direction.target, direction.source) if wanted else []
            yield Work(index, segment, ids, [span and (start + span[0], start + span[1]) for span in spans])
            offset += sum(map(len, segment))

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
        sources = ", ".join(sorted({direction.source for direction in self.directions}))
        if source == "auto":
            raise InvalidRequest("source", f"language detection is not available; use one of: {sources}")
        targets = sorted(direction.target for direction in self.directions if direction.source == source)
        if not targets:
            raise InvalidRequest("source", f"{source} is not supported; available: {sources}")
        if target not in targets:
            raise InvalidRequest("target", f"{target} is not supported; available: {', '.join(targets)}")

    def _prefix(self, work: Sequence[Work], options: TranslationOptions) -> list[int]:
        """The ids that the translation has to begin with."""
        ids = self._tokenizer.encode_target(options.target_prefix)
        if not ids:
            return []
        sentences = [each.source_ids for each in work if each.source_ids]
        if len(sentences) != 1:
            raise InvalidRequest("target_prefix", f"needs a text of one sentence, there are {len(sentences)}")
        [source_ids] = sentences
        limit = options.max_new_tokens or default_target_length(len(source_ids), len(ids), self.limits)
        if len(ids) >= limit:
            raise InvalidRequest("target_prefix", f"{len(ids)} tokens leave nothing of the {limit} that are possible")
        return ids

    def _encode(self, segment: Segment, direction: Direction) -> list[int]:
        if not segment.translatable:
            return []
        ids = self._tokenizer.encode(segment.sentence, direction.target, direction.source)
        if len(ids) > self.limits.max_length:
            raise TooLong("q", f"a sentence of {len(ids)} tokens, the model takes {self.limits.max_length}; split it")
        return ids
