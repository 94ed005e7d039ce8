"""What can be translated, and the way there: languages, limits, models. Knows nothing of HTTP, nor how engines work."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from model.manifest import Direction
from service.errors import InvalidRequest, NotReady, TooLong
from service.models.routing import Leg, Routes
from service.models.served import ServedModel
from service.preparation import Preparation, prepare
from service.text.detection import Detected, rank_languages, words_of_html
from service.translation import Job, Limits, Translation, TranslationOptions

AUTOMATIC: Final = "auto"
"""In the place of a source language: that is detected, for each text by itself."""


class Translator:
    """Takes requests to the models that can translate them."""

    def __init__(self, routes: Callable[[], Routes], limits: Limits) -> None:
        """`routes` are asked for with every request: models come and go."""
        self._routes = routes
        self.limits = limits
        self.running: set[Translation] = set()
        """Translations not yet closed, whether an engine works for them or only their reader is slow."""

    @property
    def directions(self) -> Sequence[Direction]:
        """All that can be translated, one or more; raises `NotReady` if there is nothing."""
        if not (directions := self._routes().directions):
            raise NotReady("no model is loaded")
        return directions

    def start(self, texts: Sequence[str], source: str, target: str, options: TranslationOptions) -> Translation:
        """Check and submit; the caller must `close` what it gets.

        Raises `InvalidRequest`, `TooLong` and `QueueFull`: before anything has been produced.
        """
        self._check(texts, source, target, options)
        detected = [self._detect(text, target, options) for text in texts] if source == AUTOMATIC else []
        sources = [each.language for each in detected] or [source] * len(texts)
        legs = {each: self._leg(each, target) for each in set(sources)}
        models = {leg.model for leg in legs.values()}
        _admit(models, options)
        preparations = {
            each: Preparation(leg, options, restore_capitals=self.limits.restore_capitals) for each, leg in legs.items()
        }
        work, forced_ids = prepare(texts, [preparations[each] for each in sources], options.target_prefix)
        job = Job(work, forced_ids, len(texts), next(iter(sources), source), target, options, detected)

        def on_close(closed: Translation) -> None:
            self.running.discard(closed)
            for model in models:
                model.release(closed)

        translation = Translation(job, self.limits, on_close)
        for model in models:
            model.acquire(translation)
        self.running.add(translation)
        return translation

    def detect(self, text: str) -> list[Detected]:
        """The languages that can be translated, the most probable one of the text first."""
        return rank_languages(text, {direction.source for direction in self.directions})

    def _detect(self, text: str, target: str, options: TranslationOptions) -> Detected:
        possible = {direction.source for direction in self.directions if direction.target == target}
        return rank_languages(words_of_html(text) if options.is_html else text, possible)[0]

    def _leg(self, source: str, target: str) -> Leg:
        leg = self._routes().find(source, target)
        assert leg is not None  # it was checked
        return leg

    def _check(self, texts: Sequence[str], source: str, target: str, options: TranslationOptions) -> None:
        self._check_direction(source, target)
        limits = self.limits
        if len(texts) > limits.max_texts:
            raise TooLong("q", f"{len(texts)} texts, the limit is {limits.max_texts}")
        if (characters := sum(map(len, texts))) > limits.max_characters:
            raise TooLong("q", f"{characters} characters, the limit is {limits.max_characters}")
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


def _admit(models: Iterable[ServedModel], options: TranslationOptions) -> None:
    """Raises `InvalidRequest` and `QueueFull` if one of them cannot take the request."""
    for model in models:
        if options.max_new_tokens is not None and options.max_new_tokens > model.max_new_tokens:
            raise InvalidRequest("max_new_tokens", f"the limit is {model.max_new_tokens}")
        model.pool.admit()
