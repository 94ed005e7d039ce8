"""One segment to translate, as its engine gets it: its source, the search, constraints and the details to report.

Plain values: no torch, no text, no HTTP. Every field is part of the cache's key (`supervisor.cache`) without
being named there.
"""

import msgspec


class Prompt(msgspec.Struct, frozen=True, array_like=True):
    """Token ids that the model reads: those of the source, and those that the decoder reads after bos.

    `decoder_ids` do not belong to the translation, but a beam counts them in its lengths.
    """

    source_ids: list[int]
    decoder_ids: list[int] = []


class Sampling(msgspec.Struct, frozen=True, array_like=True):
    """The rule that chooses tokens. Temperature 0 is greedy; `top_k` 0 and `top_p` 1 restrict nothing."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


class Beam(msgspec.Struct, frozen=True, array_like=True):
    """Beam width; 1 disables beam search. See `model.decoding.beam_decode` for the rules.

    Scores are divided by length ** `length_penalty`; the `alternatives` next best hypotheses are reported too.
    """

    size: int = 1
    length_penalty: float = 1.0
    alternatives: int = 0


class Search(msgspec.Struct, frozen=True, array_like=True):
    """The search for a translation, and the limit of its length."""

    max_new_tokens: int
    sampling: Sampling = Sampling()
    beam: Beam = Beam()


class GivenTerm(msgspec.Struct, frozen=True, array_like=True):
    """Source positions from `start` up to `end` with a given translation: `ids`, one or more."""

    start: int
    end: int
    ids: list[int]


class Constraints(msgspec.Struct, frozen=True, array_like=True):
    """Tokens that a translation must or must not contain.

    The first two are rules against repetition, over the ids so far, the prompt included (`model.sampling`); 1
    and 0 disable them. The translation begins with `forced_ids`, fewer than `max_new_tokens` and without eos, however
    improbable they are. `terms`, in the order of the source, are translated as given (`engine.forced_terms`);
    `closing_ids` are punctuation marks after which a sentence normally ends.
    """

    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    forced_ids: list[int] = []
    terms: list[GivenTerm] = []
    closing_ids: list[int] = []

    @property
    def given_ids(self) -> list[int]:
        """All tokens that the translation is given."""
        return [*self.forced_ids, *(token for term in self.terms for token in term.ids)]

    @property
    def changes_logits(self) -> bool:
        return self.repetition_penalty != 1.0 or self.no_repeat_ngram_size != 0


class Resume(msgspec.Struct, frozen=True, array_like=True):
    """Tokens that the client has from an engine that died: they are generated again, but not reported again.

    `sent_terms` has a term's number or None for each of `sent_ids`; it is empty where the request has no terms.
    """

    sent_ids: list[int] = []
    sent_terms: list[int | None] = []


class Inspect(msgspec.Struct, frozen=True, array_like=True):
    """Details that are reported of each token (`Inspection`).

    `candidates` is the number of most probable tokens; `alignment` is the position of the source with the largest
    cross-attention weight, `attention` all of these weights, only with `alignment`; `self_attention` the weights over
    the tokens written before. With `hypotheses`, the live hypotheses are reported after each step of a beam.
    """

    candidates: int = 0
    alignment: bool = False
    attention: bool = False
    self_attention: bool = False
    hypotheses: bool = False

    @property
    def weights(self) -> bool:
        """True if attention weights of any kind are needed."""
        return self.alignment or self.self_attention


class GenerationRequest(msgspec.Struct, frozen=True, array_like=True):
    """One segment to translate.

    A request that `yields_to_new`, in the middle of a long text, lets new requests have their first token before it
    continues.

    A `draft` guesses the tokens after the forced ones. They are verified in one step, and kept as far as they are what
    the search chooses anyway: the result has the same bits with any draft. Beams, and requests with terms, ignore it.
    """

    prompt: Prompt
    search: Search
    constraints: Constraints = Constraints()
    resume: Resume = Resume()
    inspect: Inspect = Inspect()
    yields_to_new: bool = False
    draft: list[int] = []
