"""A segment on its way through one model or two: the handover of the first translation to the second model."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

from service.engine.messages import TokenReport
from service.errors import ServiceError
from service.supervisor.generation import Generation
from service.text.segment import Term
from service.translation.postprocess import StreamingPostprocessor
from service.translation.preprocess import EncodedSegment, PivotSentence


class SubmittedSegment(NamedTuple):
    """A segment submitted to an engine, or copied."""

    encoded: EncodedSegment
    generation: Generation | None
    is_cut: bool = False
    """True if the first model's translation was cut at its maximum length."""


class PivotHandover:
    """A submitted segment; on a pivot route, the first model's translation is handed over to the second model."""

    def __init__(self, first: SubmittedSegment, second: Coroutine[Any, Any, Sequence[SubmittedSegment]] | None) -> None:
        self._first = first
        self._second = None if second is None else asyncio.create_task(second)
        if self._second is not None:
            # If the translation is closed first, nobody awaits the task: mark its exception as retrieved.
            self._second.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def characters(self) -> int:
        """The number of characters of the text that the segment stands for."""
        return len(self._first.encoded.segment.text)

    async def final_segments(self) -> Sequence[SubmittedSegment]:
        """Return the segments whose translations are sent; raises the error of the first model."""
        return [self._first] if self._second is None else await self._second

    def close(self) -> None:
        for generation in self._generations():
            generation.close()
        if self._second is not None:
            self._second.cancel()

    def fail(self, error: ServiceError) -> None:
        for generation in self._generations():
            generation.fail(error)

    def _generations(self) -> Iterator[Generation]:
        second, known = self._second, [self._first]
        if second is not None and second.done() and not second.cancelled() and second.exception() is None:
            known += second.result()
        return (each.generation for each in known if each.generation is not None)


def pivot_sentence(encoded: EncodedSegment, tokens: Sequence[TokenReport]) -> PivotSentence:
    """Return the sentence that the first model made of a segment, for the second model to read."""
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
