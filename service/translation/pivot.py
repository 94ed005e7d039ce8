"""The sentence in the pivot language: what the first of two models makes of a segment, for the second one to read."""

from collections.abc import Sequence
from typing import NamedTuple

from service.engine.messages import TokenReport
from service.supervisor.generation import Generation
from service.text.segment import Term
from service.translation.postprocess import StreamingPostprocessor
from service.translation.preprocess import EncodedSegment, PivotSentence


class FirstTranslation(NamedTuple):
    """The first model's translation of a segment."""

    sentence: PivotSentence
    tokens: int
    is_cut: bool
    """True if it was cut at its maximum length."""


async def first_translation(encoded: EncodedSegment, generation: Generation, deadline: float) -> FirstTranslation:
    """Wait for the first model's translation of a segment. Raises the errors of `Generation.read`."""
    while await generation.read(deadline):
        pass
    generation.close()
    tokens = generation.tokens
    return FirstTranslation(_sentence(encoded, tokens), len(tokens), tokens[-1].finish_reason == "length")


def _sentence(encoded: EncodedSegment, tokens: Sequence[TokenReport]) -> PivotSentence:
    # The text around the sentence and the final encoding are left to the second step.
    encoding = "plain" if encoded.segment.encoding == "attribute" else encoded.segment.encoding
    segment = encoded.segment._replace(before="", after="", separator="", capitals=False, encoding=encoding)
    assert encoded.model is not None
    postprocessor = StreamingPostprocessor(segment, encoded.model.tokenizer, encoded.spans)
    text = ""
    terms: list[Term] = []
    for token in tokens:
        part = postprocessor.push(token, is_last=token is tokens[-1])
        term = None if token.term is None else segment.terms[token.term]
        if term is not None and term.is_copy and (place := part.find(term.translation)) >= 0:
            start = len(text) + place
            terms.append(Term(start, start + len(term.translation), term.translation, is_copy=True))
        text += part
    return PivotSentence(text, [] if segment.marks else terms)
