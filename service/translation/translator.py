"""What can be translated, and the way there: languages, limits, models. Knows nothing of HTTP, nor how engines work."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from model.checkpoint_config import Direction
from service.errors import InvalidRequest, NotReady, TooLong
from service.registry.routing import Route, Routes
from service.text.html.tokenizer import text_sample
from service.text.language_codes import match_code
from service.text.language_detection import SAMPLE_CHARACTERS, Detected, rank_languages
from service.text.pivot_glossary import pivot_finders
from service.translation.fairness import FirstTokens
from service.translation.options import Limits, TranslationOptions
from service.translation.preprocess import Copying, Preparation, prepare
from service.translation.stream import Job, Translation

AUTOMATIC: Final = "auto"
"""In the place of a source language: that is detected, for each text by itself."""
_SURE: Final = 50
"""Per cent, above which a text is in a language, and in no other: below, a few words may be in any."""


class FieldNames(NamedTuple):
    """What a caller calls what it asks for; errors name it so."""

    text: str = "q"
    source: str = "source"
    target: str = "target"
    automatic: Sequence[str] = (AUTOMATIC,)
    """What may be given in the place of a source language."""
    spelled: Callable[[str], str] = str
    """How it writes a language's code."""


class Translator:
    """Takes requests to the models that can translate them."""

    def __init__(self, routes: Callable[[], Routes], limits: Limits) -> None:
        """`routes` are asked for with every request: models come and go."""
        self._routes = routes
        self.limits = limits
        self._first_tokens = FirstTokens()
        self.running: set[Translation] = set()
        """Translations not yet closed, whether an engine works for them or only their reader is slow."""

    @property
    def directions(self) -> Sequence[Direction]:
        """All that can be translated, one or more; raises `NotReady` if there is nothing."""
        self._targets()
        return self._routes().directions

    @property
    def languages(self) -> Mapping[str, frozenset[str]]:
        """Into what a text in each can be translated, or copied: itself. Raises `NotReady` if there is nothing."""
        targets = self._targets()
        return {each: targets.get(each, frozenset()) | {each} for each in self._routes().languages}

    def start(
        self,
        texts: Sequence[str],
        source: str | None,
        target: str,
        options: TranslationOptions,
        names: FieldNames = FieldNames(),  # noqa: B008  it cannot be changed
    ) -> Translation:
        """Check and submit; the caller must `close` what it gets.

        Languages may be written as `direction` takes them. A text that is in `target` already is copied. Raises
        `InvalidRequest`, `TooLong` and `QueueFull`: before anything has been produced.
        """
        source, target = self.direction(source, target, names)
        self._check(texts, options, names)
        detected = [self._detect(text, target, options, names) for text in texts] if source == AUTOMATIC else []
        sources = [each.language for each in detected] or [source] * len(texts)
        found = {each: self._routes().find(each, target) for each in set(sources)}
        routes = {each: route for each, route in found.items() if route is not None}
        assert all(each in routes or each == target for each in found)  # it was checked
        _admit(routes.values(), options)
        preparations = {each: self._preparation(route, options) for each, route in routes.items()}
        copying = Copying()
        work = prepare(texts, [preparations.get(each, copying) for each in sources], options.target_prefix)
        pivot_of = {each: route.pivot for each, route in routes.items()}
        pivots = [pivot_of.get(each) for each in sources] if any(pivot_of.values()) else ()
        job = Job(work, len(texts), next(iter(sources), source), target, options, detected, pivots)
        models = {model for route in routes.values() for model in route.models}

        def on_close(closed: Translation) -> None:
            self.running.discard(closed)
            for model in models:
                model.release(closed)

        translation = Translation(job, self.limits, self._first_tokens, on_close)
        for model in models:
            model.acquire(translation)
        self.running.add(translation)
        return translation

    def direction(
        self,
        source: str | None,
        target: str,
        names: FieldNames = FieldNames(),  # noqa: B008  it cannot be changed
    ) -> tuple[str, str]:
        """The models' own codes of languages, however a caller writes them; no source is `AUTOMATIC`.

        Any language may be its own target, and that of texts whose language is still to be detected. Raises
        `InvalidRequest`, and `NotReady` if there is nothing.
        """
        known = self._targets()
        languages = self._routes().languages
        itself = None if source is None else match_code(source, languages)
        if itself is not None and match_code(target, languages) == itself:
            return itself, itself
        if source is None or source.lower() in names.automatic:
            meant, available = AUTOMATIC, languages
            # What can be translated into goes before what can only be copied: `pt` for `pt-BR`.
            found = match_code(target, frozenset().union(*known.values())) or match_code(target, languages)
        elif named := match_code(source, known) or itself:
            meant, available = named, known.get(named, frozenset({named}))
            found = match_code(target, available)
        else:
            raise _unknown(names.source, source, [*names.automatic, *map(names.spelled, sorted(known))])
        if found is None:
            raise _unknown(names.target, target, map(names.spelled, sorted(available)))
        return meant, found

    def detect(self, text: str) -> list[Detected]:
        """Of the languages that are known, one or more that a text may be in, the most probable first."""
        sources = self._targets()
        ranked = rank_languages(text, self._routes().languages)
        # Where there is nothing to tell it by, one that can be translated.
        return [each for each in ranked if each.confidence] or [each for each in ranked if each.language in sources][:1]

    def _detect(self, text: str, target: str, options: TranslationOptions, names: FieldNames) -> Detected:
        """The target itself, a language that can be translated into it, or if that is not sure, the likeliest of those.

        Into a language that is a source only nothing can be translated: there, the likeliest one counts, sure or not.
        Raises `InvalidRequest` for a text that is in another one.
        """
        targets = self._targets()
        ranked = rank_languages(
            text_sample(text, SAMPLE_CHARACTERS) if options.is_html else text, self._routes().languages
        )
        possible = next((each for each in ranked if target in targets.get(each.language, ())), None)
        first = ranked[0]
        if possible is not None and first.confidence <= _SURE:
            return possible
        # Scripts and countries of one language cannot be told apart: then nothing is lost by a copy.
        itself = next(each for each in ranked if each.language == target)
        for found in (itself, possible):
            if found is not None and found.confidence == first.confidence:
                return found
        own, wanted = names.spelled(first.language), names.spelled(target)
        raise InvalidRequest(names.source, f"the text is in {own}, which cannot be translated into {wanted}")

    def _targets(self) -> Mapping[str, frozenset[str]]:
        """Of each source language, one or more; raises `NotReady` if there is none."""
        if not (targets := self._routes().targets):
            raise NotReady("no model is loaded")
        return targets

    def _preparation(self, route: Route, options: TranslationOptions) -> Preparation:
        restore = self.limits.restore_capitals
        if route.second is None:
            return Preparation(route.first, options, options.glossary, restore_capitals=restore)
        glossary = pivot_finders(options.glossary)
        second = Preparation(route.second, options, glossary.second, restore_capitals=restore)
        return Preparation(route.first, options, glossary.first, restore_capitals=restore, second=second)

    def _check(self, texts: Sequence[str], options: TranslationOptions, names: FieldNames) -> None:
        limits = self.limits
        if len(texts) > limits.max_texts:
            raise TooLong(names.text, f"{len(texts)} texts, the limit is {limits.max_texts}")
        if (characters := sum(map(len, texts))) > limits.max_characters:
            raise TooLong(names.text, f"{characters} characters, the limit is {limits.max_characters}")
        if options.beam.alternatives >= limits.max_beam_size:
            asked, most = options.beam.alternatives, limits.max_beam_size - 1
            raise InvalidRequest("alternatives", f"{asked} are asked for, the limit is {most}")
        if options.beam.size > limits.max_beam_size:
            raise InvalidRequest("beam_size", f"{options.beam.size} is asked for, the limit is {limits.max_beam_size}")


def _unknown(field: str, code: str, available: Iterable[str]) -> InvalidRequest:
    return InvalidRequest(field, f"{code} is not supported; available: {', '.join(available)}")


def _admit(routes: Iterable[Route], options: TranslationOptions) -> None:
    """Raises `InvalidRequest` and `QueueFull` if one of them cannot take the request."""
    for route in routes:
        limit = route.last.model.max_new_tokens
        if options.max_new_tokens is not None and options.max_new_tokens > limit:
            raise InvalidRequest("max_new_tokens", f"the limit is {limit}")
        if route.pivot is not None and options.inspect.alignment:
            field = "attention" if options.inspect.attention else "alignment"
            source, target = route.first.direction.source, route.last.direction.target
            raise InvalidRequest(field, f"is not available from {source} into {target}, by way of {route.pivot}")
        for model in route.models:
            model.pool.admit()
