"""How one request's translation grows: which rows it has in a step, and what it makes of their results.

A single hypothesis (greedy, sampling) holds one slot. A beam holds `beam_size`: each live hypothesis is a row with a
slot of its own, and all look at the source in the first. The first child of a hypothesis inherits its slot, so that
nothing is copied; only further children get a copy of its K/V, in a slot whose hypothesis has died.

Pure Python: what is chosen in a row comes from `choosing`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from model.search import BeamSearch, Choice, Extension, Path
from service.engine.request import Constraints, FinishReason, GenerationRequest, LiveHypothesis
from service.engine.terms import Open, what_is_open

UNCONSTRAINED: Final = Constraints()
_by_total: Final = attrgetter("total")


class Row(NamedTuple):
    """A query of the decoder: what a hypothesis of `ids` could go on with."""

    request: GenerationRequest
    slot: int
    source_slot: int
    ids: list[int]
    """All before it, the prompt included, without bos; its position is their number."""
    parent: int = 0
    """The hypothesis's rank among those of its request."""
    total: float = 0.0
    """The sum of log-probabilities of `ids`; only a beam asks for it."""
    wanted: int = 1
    """How many extensions are wanted: 0 if only the K/V are."""
    forced: int | None = None
    """The token that must come next, whatever is probable."""
    term: int | None = None
    """The term that the forced token belongs to, by its number."""
    pending: Sequence[int] = ()
    """The terms that may come next, by their numbers."""
    is_ranked: bool = False
    """Whether the best extensions of all of its beam's rows are enough, whatever their own ones are."""

    @property
    def is_constrained(self) -> bool:
        """Whether its logits change before anything is chosen; what is forced is not chosen."""
        return self.forced is None and self.request.constraints != UNCONSTRAINED

    @property
    def needs_alignment(self) -> bool:
        """Whether it matters where in the source it looks."""
        return self.wanted > 0 and (self.request.alignment or bool(self.pending))

    @property
    def needs_self_attention(self) -> bool:
        """Whether it is told where in its own text it looks."""
        return self.wanted > 0 and self.request.self_attention

    @property
    def needs_logits(self) -> bool:
        """Whether the best token alone does not say what the row goes on with."""
        request = self.request
        if self.is_ranked or self.term is not None:
            return False
        return self.wanted > 0 and (
            self.forced is not None
            or self.wanted > 1
            or request.sampling.temperature > 0
            or self.is_constrained
            or request.top_candidates > 0
            or bool(self.pending)
        )

    @property
    def ahead(self) -> int:
        """How many more tokens it may take unasked, if each is the most probable one; or its beam more steps."""
        if self.is_ranked:
            may = not self.request.hypotheses
        else:
            is_looked_at = self.needs_alignment or self.needs_self_attention
            may = self.wanted == 1 and not (self.needs_logits or is_looked_at or self.term is not None)
        if not may:
            return 0
        return self.request.max_new_tokens + len(self.request.prompt_ids) - len(self.ids) - 1


class SearchDiffers(Exception):
    """A search that was begun again does not begin with what was told of it: a near tie, in a mode that has them."""


class Written(NamedTuple):
    """What a step has added to a translation for good, and whether that was the end of it."""

    choices: Sequence[Choice]
    finish_reason: FinishReason | None = None
    alternatives: Sequence[Path] = ()
    live: Sequence[LiveHypothesis] = ()
    """What a beam goes on with, where that is wanted."""


class Writer(Protocol):
    """One request's hypotheses."""

    def copies(self) -> list[tuple[int, int, int]]:
        """Target K/V to copy before the next step: (from slot, to slot, positions)."""
        ...

    def rows(self) -> list[Row]:
        """The rows of the next step."""
        ...

    def take(self, extensions: list[Extension]) -> Written:
        """Go on with what the rows have given: those of the first row, then of the second, ...

        Raises `SearchDiffers`.
        """
        ...


def writer_of(request: GenerationRequest, slots: Sequence[int], eos_id: int) -> Writer:
    """The writer of a request that has just been given its slots."""
    return (BeamWriter if request.beam.size > 1 else SingleWriter)(request, slots, eos_id)


def _prompt_rows(request: GenerationRequest, slot: int) -> list[Row]:
    """The prompt, a row for each token; they are only there for their K/V."""
    return [Row(request, slot, slot, request.prompt_ids[:i], wanted=0) for i in range(len(request.prompt_ids))]


def _prefix_rows(request: GenerationRequest, slot: int, wanted_from: int) -> list[Row]:
    """The forced prefix, all in one step: a row for each token."""
    prompt, forced = request.prompt_ids, request.forced_ids
    return [
        Row(request, slot, slot, prompt + forced[:i], wanted=int(i >= wanted_from), forced=token)
        for i, token in enumerate(forced)
    ]


def _unless_end(
    extension: Extension, pending: Sequence[int], request: GenerationRequest, ends: Collection[int]
) -> Extension:
    """In the place of an end, the first term that is still missing."""
    if not pending or extension.choice.token not in ends:
        return extension
    end = extension.choice
    choice = beginning(request, pending[0])._replace(
        alignment=end.alignment, attention=end.attention, self_attention=end.self_attention
    )
    return Extension(extension.parent, choice, extension.total - end.logprob)


def beginning(request: GenerationRequest, term: int) -> Choice:
    """The first token of a term."""
    return Choice(request.terms[term].ids[0], 0.0, term=term)


class SingleWriter:
    """One hypothesis: greedy or sampled."""

    def __init__(self, request: GenerationRequest, slots: Sequence[int], eos_id: int) -> None:
        self._request = request
        [self._slot] = slots
        self._eos_id = eos_id
        self._ids: list[int] = []  # of the translation
        self._terms: list[int | None] = list(request.told_terms)  # that those belong to; unused where there are none

    def copies(self) -> list[tuple[int, int, int]]:
        return []

    def rows(self) -> list[Row]:
        request, slot = self._request, self._slot
        if not self._ids and request.forced_ids:
            return _prompt_rows(request, slot) + _prefix_rows(request, slot, len(request.told_ids))
        ids = request.prompt_ids + self._ids
        rest, term, pending = what_is_open(request.terms, self._terms)
        room = request.max_new_tokens - len(self._ids)
        following = [
            Row(request, slot, slot, ids + list(rest[:i]), forced=token, term=term)
            for i, token in enumerate(rest[:room])
        ] or [Row(request, slot, slot, ids, pending=pending)]
        return following if self._ids else _prompt_rows(request, slot) + following

    def take(self, extensions: list[Extension]) -> Written:
        if not self._ids and self._request.forced_ids:
            choices = [extension.choice for extension in extensions]
            self._ids = list(self._request.forced_ids)
        else:
            pending = what_is_open(self._request.terms, self._terms).pending
            ends = (self._eos_id, *self._request.closing_ids)
            choices = [_unless_end(extension, pending, self._request, ends).choice for extension in extensions]
            self._ids += [choice.token for choice in choices]
            if self._request.terms:
                self._terms += [choice.term for choice in choices]
        if self._ids[-1] == self._eos_id:
            return Written(choices, "stop")
        return Written(choices, "length" if len(self._ids) >= self._request.max_new_tokens else None)


class BeamWriter:
    """A beam search whose tokens are told as soon as all that can still win agree on them."""

    def __init__(self, request: GenerationRequest, slots: Sequence[int], eos_id: int) -> None:
        self._request = request
        self._slots = list(slots)
        self._eos_id = eos_id
        self._prompt = [Choice(token, 0.0) for token in request.prompt_ids]
        self._search = self._search_from(Path.of(self._prompt, 0.0))
        self._live_slots = self._slots[:1]
        self._copies: list[tuple[int, int, int]] = []
        self._settled = len(self._prompt)
        self._has_begun = False
        changed = request.constraints != UNCONSTRAINED or request.terms
        looks = request.alignment or request.self_attention
        self._is_ranked = not (changed or looks or request.top_candidates)

    def copies(self) -> list[tuple[int, int, int]]:
        return self._copies

    def rows(self) -> list[Row]:
        request, first = self._request, self._slots[0]
        prompt = [] if self._has_begun else _prompt_rows(request, first)
        if self._is_at_prefix:
            # All of them count in the score, also those that the reader has.
            return prompt + _prefix_rows(request, first, wanted_from=0)
        live = zip(self._search.live, self._live_slots, strict=True)
        return prompt + [self._row(parent, path, slot) for parent, (path, slot) in enumerate(live)]

    def _row(self, parent: int, path: Path, slot: int) -> Row:
        request, first, wanted = self._request, self._slots[0], 2 * self._request.beam.size
        if self._is_ranked:
            return Row(request, slot, first, path.ids, parent, path.total, wanted, is_ranked=True)
        rest, term, pending = self._open(path)
        if rest:
            return Row(request, slot, first, path.ids, parent, path.total, forced=rest[0], term=term)
        return Row(request, slot, first, path.ids, parent, path.total, wanted, pending=pending)

    def _open(self, path: Path) -> Open:
        return what_is_open(self._request.terms, (choice.term for choice in path.choices))

    def take(self, extensions: list[Extension]) -> Written:
        is_prefix, self._has_begun = self._is_at_prefix, True
        if is_prefix:
            choices = [extension.choice for extension in extensions]
            total = sum(choice.logprob for choice in choices)
            self._search = self._search_from(Path.of(self._prompt + choices, total))
            live = [LiveHypothesis(0, self._request.forced_ids, total)]
        else:
            if self._request.terms:
                extensions = list(self._with_missing_terms(extensions))
            # Stable, and of equal ones the earlier parent's is first.
            best = sorted(extensions, key=_by_total, reverse=True)[: 2 * self._request.beam.size]
            survivors = self._search.advance(best)
            self._inherit(survivors)
            live = [LiveHypothesis(own.parent, [own.choice.token], own.total, own.choice.term) for own in survivors]
        written = self._written()
        is_live = self._request.hypotheses and written.finish_reason is None
        return written._replace(live=live) if is_live else written

    def _with_missing_terms(self, extensions: Iterable[Extension]) -> Iterator[Extension]:
        """In the place of an end, or of a mark that closes the sentence where nothing is more probable."""
        request = self._request
        pending = [self._open(path).pending for path in self._search.live]
        seen: set[int] = set()
        given: set[int] = set()
        for extension in extensions:
            parent = extension.parent
            ends = (self._eos_id,) if parent in seen else (self._eos_id, *request.closing_ids)
            seen.add(parent)
            other = _unless_end(extension, pending[parent], request, ends)
            if other is extension:
                yield extension
            elif parent not in given:  # behind such a mark the end is possible, too
                given.add(parent)
                yield other

    @property
    def _is_at_prefix(self) -> bool:
        return bool(self._request.forced_ids) and not self._has_begun

    def _search_from(self, start: Path) -> BeamSearch:
        beam = self._request.beam
        return BeamSearch(beam.size, beam.length_penalty, self._eos_id, start)

    def _inherit(self, survivors: Sequence[Extension]) -> None:
        """Slots for the hypotheses that go on: a runner that is several steps ahead has given them the same ones."""
        old = self._live_slots
        self._live_slots = [old[survivor.parent] for survivor in survivors]
        self._copies = []
        inherited = set(self._live_slots)
        if len(inherited) == len(survivors):
            return
        free = [slot for slot in reversed(self._slots) if slot not in inherited]
        for rank, slot in enumerate(self._live_slots):
            if slot in inherited:
                inherited.remove(slot)
            else:
                self._live_slots[rank] = free.pop()
                self._copies.append((slot, self._live_slots[rank], len(self._search.live[rank].ids)))

    def _written(self) -> Written:
        search, request = self._search, self._request
        if search.live and len(search.live[0].choices) < len(self._prompt) + request.max_new_tokens:
            return Written(self._unreported(search.settled(self._settled)))
        best, *others = search.best(1 + request.beam.alternatives)
        reason: FinishReason = "stop" if best.choices[-1].token == self._eos_id else "length"
        rest = self._unreported(best.choices[self._settled :])
        if not rest:
            raise SearchDiffers
        behind = len(self._prompt)
        return Written(rest, reason, [Path.of(other.choices[behind:], other.total) for other in others])

    def _unreported(self, choices: list[Choice]) -> list[Choice]:
        """Without those that the reader has from an engine that died. Raises `SearchDiffers`."""
        told = self._request.told_ids[self._settled - len(self._prompt) :][: len(choices)]
        if [choice.token for choice in choices[: len(told)]] != told:
            raise SearchDiffers
        self._settled += len(choices)
        return choices[len(told) :]
