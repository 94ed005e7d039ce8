"""From texts to what an engine is given: sentences, ids, forced beginnings. Knows one model's tokenizer and limits."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from model.manifest import Direction
from model.tokenizer import Tokenizer
from service.errors import InvalidRequest
from service.text.plain import Splitter
from service.text.segment import Segment
from service.translation import Job, Limits, TranslationOptions, Work, default_target_length

_LONGEST_TOKEN: Final = 64  # characters; tokenizers make none so long


class Preparation:
    """Prepares requests of one direction."""

    def __init__(self, tokenizer: Tokenizer, limits: Limits, direction: Direction, options: TranslationOptions) -> None:
        self._tokenizer = tokenizer
        self._limits = limits
        self._direction = direction
        self._options = options
        self._splitter = Splitter(self._fits, restore_capitals=limits.restore_capitals)

    def job(self, texts: Sequence[str]) -> Job:
        """Raises `InvalidRequest`."""
        work: Iterator[Work] = chain.from_iterable(self._work(index, text) for index, text in enumerate(texts))
        forced: list[int] = []
        if self._options.target_prefix:
            # Only a text of one sentence can have one, so all of it may be looked at.
            all_work = list(work)
            work, forced = iter(all_work), self._forced_ids(all_work)
        source, target = self._direction.codes()
        prompt = self._tokenizer.target_prefix(target, source)
        return Job(work, forced, len(texts), source, target, self._options, prompt)

    def _work(self, index: int, text: str) -> Iterator[Work]:
        source, target = self._direction.codes()
        offset = 0
        for segment in self._splitter.split(text, source):
            ids = self._encode(segment) if segment.translatable else []
            start = offset + len(segment.before)
            wanted = ids and self._options.alignment
            spans = self._tokenizer.spans(segment.source, target, source) if wanted else []
            yield Work(index, segment, ids, [span and (start + span[0], start + span[1]) for span in spans])
            offset += len(segment.text)

    def _fits(self, segment: Segment) -> bool:
        limit = self._limits.max_sentence_tokens
        return len(segment.source) <= limit * _LONGEST_TOKEN and len(self._encode(segment)) <= limit

    def _encode(self, segment: Segment) -> list[int]:
        source, target = self._direction.codes()
        return self._tokenizer.encode(segment.source, target, source)

    def _forced_ids(self, work: Sequence[Work]) -> list[int]:
        """What the translation has to begin with."""
        ids = self._tokenizer.encode_target(self._options.target_prefix)
        if not ids:
            return []
        sentences = [each.source_ids for each in work if each.source_ids]
        if len(sentences) != 1:
            raise InvalidRequest("target_prefix", f"needs a text of one sentence, there are {len(sentences)}")
        [source_ids] = sentences
        limit = self._options.max_new_tokens or default_target_length(len(source_ids), len(ids), self._limits)
        if len(ids) >= limit:
            raise InvalidRequest("target_prefix", f"{len(ids)} tokens leave nothing of the {limit} that are possible")
        return ids
