"""The translator: it checks requests, finds their routes and starts them. Knows nothing of HTTP and engines."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, Protocol

from model.checkpoint_config import Direction
from service.errors import InvalidRequest, NotReady, QueueFull, TooLong, UnknownLanguage
from service.registry.routing import Route, Routes
from service.stores.translation_memory import TranslationMemory
from service.text.language_codes import match_code
from service.text.language_detection import SAMPLE_CHARACTERS, Detected, find_foreign, rank_languages
from service.text.markup.tokenizer import text_sample
from service.text.pivot_glossary import pivot_finders
from service.translation.events import Started
from service.translation.options import Limits, TranslationOptions
from service.translation.preprocess import Encode, EncodedSegment, Preprocessor, copied
from service.translation.recall import remembering
from service.translation.translation import Translation, Work
from service.translation.window import FirstTokenPriority, SegmentWindow

AUTOMATIC: Final = "auto"
"""The source language code for detection, done for each text by itself."""
_SURE_PERCENT: Final = 50
"""Per cent of confidence above which a text is in one language for sure; a few words may be in any."""

_LONG_CHARACTERS: Final = 4000
"""Longer requests are prepared in a thread, so that splitting and encoding them does not hold the event loop."""
_MOST_IN_PREPARATION: Final = 64
"""Long requests without a segment in an engine yet: the queue of the engines does not count these."""


class FieldNames(NamedTuple):
    """The field names of a caller's API, for error messages."""

    text: str = "q"
    source: str = "source"
    target: str = "target"
    automatic: Sequence[str] = (AUTOMATIC,)
    """Values of the source field that request detection."""
    spelled: Callable[[str], str] = str
    """Converts a language code to the caller's spelling."""


class Models(Protocol):
    """The models that are offered, which come and go."""

    routes: Routes


class Translator:
    """Sends requests to the models that can translate them."""

    def __init__(self, models: Models, limits: Limits, memory: TranslationMemory | None = None) -> None:
        self._models = models
        self._memory = memory
        self.limits = limits
        self._priority = FirstTokenPriority()
        # A single thread: each one more would take its turn between two turns of the event loop.
        self._executor = ThreadPoolExecutor(1, "preparation")
        self.running: set[Translation] = set()
        """Translations that are not closed, in an engine or only with a slow reader."""

    @property
    def directions(self) -> Sequence[Direction]:
        """All directions, one or more; raises `NotReady` if there are none."""
        self._targets()
        return self._models.routes.directions

    @property
    def languages(self) -> Mapping[str, frozenset[str]]:
        """The targets of each language, including itself (copied). Raises `NotReady` if there are none."""
        targets = self._targets()
        return {each: targets.get(each, frozenset()) | {each} for each in self._models.routes.languages}

    @property
    def downloadable(self) -> Mapping[str, frozenset[str]]:
        """The targets of each language whose models are downloaded at the first request."""
        return self._models.routes.downloadable

    def start(
        self,
        texts: Sequence[str],
        source: str | None,
        target: str,
        options: TranslationOptions,
        names: FieldNames = FieldNames(),  # noqa: B008  it cannot be changed
        request_id: str = "",
    ) -> Translation:
        """Check a request and submit it; the caller must `close` the translation. `request_id` is in its first event.

        Languages are written as for `direction`. A text that is already in `target` is copied. Raises
        `InvalidRequest`, `TooLong` and `QueueFull`, before any output.
        """
        source, target = self.direction(source, target, names)
        self._check(texts, options, names)
        detected = [self._detect(text, target, options, names) for text in texts] if source == AUTOMATIC else []
        sources = [each.language for each in detected] or [source] * len(texts)
        plans = {each: self._models.routes.plan(each, target) for each in set(sources)}
        is_long = sum(map(len, texts)) > _LONG_CHARACTERS
        if is_long and sum(each.is_in_preparation for each in self.running) >= _MOST_IN_PREPARATION:
            raise QueueFull("too many requests are waiting; try again in a moment")
        pivots = [plans[each].pivot for each in sources] if any(each.pivot for each in plans.values()) else ()
        missing = list(dict.fromkeys(model for plan in plans.values() for model in plan.missing))
        # The search for matches takes longer than a step of the event loop may.
        is_searched = options.shows_matches and self._memory_of(options.caller) is not None
        executor = self._executor if is_long or is_searched else None
        first = next(iter(sources), source)
        started = Started(request_id, first, target, detected, pivots)
        window = SegmentWindow(options, self.limits, executor, self._priority)
        translation = Translation(started, len(texts), options, window, self.running.discard)
        try:
            work = partial(self._work, texts, sources, target, options)
            if missing:
                translation.fetch(missing, work)
            else:
                translation.begin(work())
        except BaseException:
            translation.close()
            raise
        self.running.add(translation)
        return translation

    def _work(self, texts: Sequence[str], sources: Sequence[str], target: str, options: TranslationOptions) -> Work:
        """Make the work of a request. Raises `InvalidRequest`, `QueueFull` and `NotReady`."""
        found = {each: self._models.routes.find(each, target) for each in set(sources)}
        routes = {each: route for each, route in found.items() if route is not None}
        if any(each not in routes and each != target and not options.copies_foreign for each in found):
            raise NotReady("a model of this direction has just been unloaded; try again")
        _admit(routes.values(), options)
        preprocessors = {each: _preprocessor(route, options) for each, route in routes.items()}
        encoders: dict[str, Encode] = {each: preprocessor.encode for each, preprocessor in preprocessors.items()}
        if (memory := self._memory_of(options.caller)) is not None:
            encoders = {each: remembering(encode, memory, routes[each], options) for each, encode in encoders.items()}
        segments: Iterator[EncodedSegment] = chain.from_iterable(
            encoders.get(source, copied)(index, text)
            for index, (source, text) in enumerate(zip(sources, texts, strict=True))
        )
        if options.target_prefix and texts:  # of one sentence, or it is refused
            if sources[0] not in preprocessors:
                raise InvalidRequest("target_prefix", "the text is already in the target language and is copied")
            segments = preprocessors[sources[0]].with_target_prefix(segments)
        return Work(segments, {model for route in routes.values() for model in route.models})

    def _memory_of(self, caller: str) -> TranslationMemory | None:
        """Return the translation memory, if it has units for a caller."""
        return self._memory if self._memory is not None and self._memory.has(caller) else None

    async def route(self, source: str, target: str) -> Route:
        """Return the route between two of the models' codes, after fetching what it lacks. Raises `NotReady`."""
        await asyncio.gather(*(model.fetch() for model in self._models.routes.plan(source, target).missing))
        if (route := self._models.routes.find(source, target)) is None:
            raise NotReady("a model of this direction has just been unloaded; try again")
        return route

    def direction(
        self,
        source: str | None,
        target: str,
        names: FieldNames = FieldNames(),  # noqa: B008  it cannot be changed
    ) -> tuple[str, str]:
        """Return the models' codes of source and target, however a caller writes them; no source is `AUTOMATIC`.

        Any language may be its own target, and a target of texts whose language is detected. Raises `InvalidRequest`,
        and `NotReady` if there are no models.
        """
        known = self._targets()
        languages = self._models.routes.languages
        itself = None if source is None else match_code(source, languages)
        if itself is not None and match_code(target, languages) == itself:
            return itself, itself
        if source is None or source.lower() in names.automatic:
            meant, available = AUTOMATIC, languages
            # Languages that can be translated into come before those that can only be copied: `pt` for `pt-BR`.
            found = match_code(target, frozenset().union(*known.values())) or match_code(target, languages)
        elif named := match_code(source, known) or itself:
            meant, available = named, known.get(named, frozenset({named}))
            found = match_code(target, available)
        else:
            raise UnknownLanguage(
                names.source, source, [*filter(None, names.automatic), *map(names.spelled, sorted(known))]
            )
        if found is None:
            raise UnknownLanguage(names.target, target, map(names.spelled, sorted(available)))
        return meant, found

    def detect(self, text: str) -> list[Detected]:
        """Return the known languages that a text may be in, one or more, the most probable first."""
        sources = self._targets()
        ranked = rank_languages(text, self._models.routes.languages)
        # Without evidence, any language that can be translated.
        return [each for each in ranked if each.confidence] or [each for each in ranked if each.language in sources][:1]

    def source_of(self, sample: str, source: str | None, target: str, names: FieldNames) -> tuple[str, str]:
        """Return the models' codes of source and target as `direction` does; an HTML sample tells the language.

        For texts of one language that are translated in several requests. Raises `InvalidRequest` and `NotReady`.
        """
        source, target = self.direction(source, target, names)
        if source == AUTOMATIC:
            source = self._detect(sample, target, TranslationOptions(is_html=True), names).language
        return source, target

    def _detect(self, text: str, target: str, options: TranslationOptions, names: FieldNames) -> Detected:
        """Return the language of a text: the target, or a language that can be translated into it.

        A text whose language is not sure gets the most probable language that can be translated into the target. If
        none can, the most probable language counts. Raises `InvalidRequest` for a text in another language, unless the
        options let it be copied.
        """
        targets = self._targets()
        languages = self._models.routes.languages
        sample = text_sample(text, SAMPLE_CHARACTERS) if options.is_html or options.xml else text
        ranked = rank_languages(sample, languages)
        possible = next((each for each in ranked if target in targets.get(each.language, ())), None)
        first = ranked[0]
        if foreign := find_foreign(sample, languages):
            return self._foreign(foreign, target, options, names)
        if possible is not None and first.confidence <= _SURE_PERCENT:
            return possible
        # Scripts and countries of one language cannot be distinguished; a copy then loses nothing.
        itself = next(each for each in ranked if each.language == target)
        for found in (itself, possible):
            if found is not None and found.confidence == first.confidence:
                return found
        return self._foreign(first, target, options, names)

    @staticmethod
    def _foreign(found: Detected, target: str, options: TranslationOptions, names: FieldNames) -> Detected:
        """Return the language of a text that no model translates into the target, if such texts may be copied."""
        if options.copies_foreign:
            return found
        own, wanted = names.spelled(found.language), names.spelled(target)
        raise InvalidRequest(names.source, f"the text is in {own}, which cannot be translated into {wanted}")

    def _targets(self) -> Mapping[str, frozenset[str]]:
        """Return the targets of each source language; raises `NotReady` if there are none."""
        if not (targets := self._models.routes.targets):
            raise NotReady("no model is loaded")
        return targets

    def check_length(self, texts: Sequence[str], name: str) -> None:
        """Raise `TooLong` for too many texts or characters."""
        limits = self.limits
        if len(texts) > limits.max_texts:
            raise TooLong(name, f"{len(texts)} texts, the limit is {limits.max_texts}")
        if (characters := sum(map(len, texts))) > limits.max_characters:
            raise TooLong(name, f"{characters} characters, the limit is {limits.max_characters}")

    def _check(self, texts: Sequence[str], options: TranslationOptions, names: FieldNames) -> None:
        self.check_length(texts, names.text)
        limits = self.limits
        # Before it is tokenized, which takes long.
        if (characters := len(options.target_prefix)) > limits.max_characters:
            raise TooLong("target_prefix", f"{characters} characters, the limit is {limits.max_characters}")
        if options.beam.alternatives >= limits.max_beam_size:
            requested, most = options.beam.alternatives, limits.max_beam_size - 1
            raise InvalidRequest("alternatives", f"{requested} are requested, the limit is {most}")
        if options.beam.size > limits.max_beam_size:
            raise InvalidRequest("beam_size", f"{options.beam.size} is requested, the limit is {limits.max_beam_size}")


def _preprocessor(route: Route, options: TranslationOptions) -> Preprocessor:
    if route.second is None:
        return Preprocessor(route.first, options, options.glossary.find)
    find_terms, find_code_words = pivot_finders(options.glossary)
    second = Preprocessor(route.second, options, find_code_words)
    return Preprocessor(route.first, options, find_terms, second=second)


def _admit(routes: Iterable[Route], options: TranslationOptions) -> None:
    """Raise `InvalidRequest` or `QueueFull` if a route cannot take the request."""
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
