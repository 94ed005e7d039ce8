"""Options of a translation, limits of a request, and the maximum length of a translation."""

from dataclasses import dataclass, field
from typing import Final

# Callers build these for `TranslationOptions`, without knowing the engine.
from service.engine.generation_request import Beam as Beam
from service.engine.generation_request import Constraints as Constraints
from service.engine.generation_request import Inspect as Inspect
from service.engine.generation_request import Sampling as Sampling
from service.registry.served_model import ServedModel
from service.text.glossary import EMPTY_GLOSSARY, Glossary
from service.text.splitter import Splitting
from service.text.xml import XmlTags

MAX_BEAM_SIZE: Final = 16
"""Wider beams often translate worse (Koehn and Knowles 2017, section 3.6) and hold a slot for each hypothesis."""

# Enough for a target much longer than its source; stops a model that repeats itself.
_TARGET_TOKENS_PER_SOURCE_TOKEN: Final = 3
_EXTRA_TARGET_TOKENS: Final = 32


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """Options of a translation; `None` leaves the choice to the server."""

    sampling: Sampling = field(default_factory=Sampling)
    beam: Beam = field(default_factory=Beam)
    constraints: Constraints = field(default_factory=Constraints)
    target_prefix: str = ""
    inspect: Inspect = field(default_factory=Inspect)
    """Hypotheses only with a beam, and not with `is_html`."""
    is_html: bool = False
    """Excludes alignment."""
    xml: XmlTags | None = None
    """The tags of a text in XML; None for other texts. Excludes alignment."""
    splitting: Splitting | None = None
    """None is the default of the format (`Splitter.splitting`)."""
    glossary: Glossary = EMPTY_GLOSSARY
    shows_matches: bool = False
    """True if each segment comes with the units of a translation memory that are like it."""
    copies_foreign: bool = False
    """A text that is detected to be in a language without a route to the target is copied instead of refused."""
    max_new_tokens: int | None = None
    timeout_seconds: float | None = None
    has_seed: bool = False
    """True if the caller chose the seed of `sampling`."""
    ignored_elements: frozenset[str] = frozenset()
    """Names of the elements of HTML that are copied."""
    caller: str = ""
    """The identity of the caller, for results that are not shared with others."""
    is_background: bool = False
    """True for a part of a document: it holds fewer slots, and gives way to all requests."""

    @property
    def cache_scope(self) -> str | None:
        """Return a name of the requests that may share results with this one; None if no result is kept.

        A glossary is private: its translations are kept for its caller alone. Without a seed, nobody expects a sample
        again; what is inspected is large, and looked at once.
        """
        if self.inspect != Inspect() or (self.sampling.temperature > 0 and not self.has_seed):
            return None
        return (self.caller or None) if len(self.glossary) else ""

    def of_first(self) -> "TranslationOptions":
        """Return the options for the first model of a pivot route, of which only the best translation is used."""
        beam = Beam(self.beam.size, self.beam.length_penalty)
        return TranslationOptions(beam=beam, constraints=self.constraints, glossary=self.glossary, caller=self.caller)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one request, for any model."""

    max_characters: int
    max_beam_size: int
    timeout_seconds: float
    max_texts: int = 1024
    """More than fill the slots of an engine; each costs memory before it is translated."""
    max_segments_in_flight: int = 16
    """Decoded at once; a beam counts its width. A quarter of an engine's slots, so that a long text leaves room."""


def default_target_length(source_tokens: int, forced_tokens: int, model: ServedModel) -> int:
    """Return the maximum length of a translation in tokens, if the request sets no `max_new_tokens`."""
    generous = _TARGET_TOKENS_PER_SOURCE_TOKEN * source_tokens + _EXTRA_TARGET_TOKENS
    return min(forced_tokens + generous, model.max_new_tokens)
