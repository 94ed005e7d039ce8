"""Work on its way through one model, or through a second one behind it."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

from service.engine.messages import TokenReport
from service.errors import ServiceError
from service.supervisor.generation import Generation
from service.text.segment import Term
from service.translation.postprocess import Wording
from service.translation.preprocess import Between, Work


class Submitted(NamedTuple):
    """Work in an engine, or to be copied."""

    work: Work
    generation: Generation | None
    is_cut: bool = False
    """Whether the model before this one came to no end."""


class Relay:
    """Work that has been looked at; where a second model is to go on, it gets what the first one makes of it."""

    def __init__(self, first: Submitted, second: Coroutine[Any, Any, Sequence[Submitted]] | None) -> None:
        self._first = first
        self._second = None if second is None else asyncio.create_task(second)
        if self._second is not None:
            # Its failure is nobody's any more when the translation is closed before it comes to it.
            self._second.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def characters(self) -> int:
        """Of the text, those that it is the work on."""
        return len(self._first.work.segment.text)

    async def last(self) -> Sequence[Submitted]:
        """What the text comes from; raises what the first model's work has failed with."""
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


def between(work: Work, tokens: Sequence[TokenReport]) -> Between:
    """The sentence that a model made of a segment, for another model to read."""
    # What surrounds the sentence, and how all is written in the end, is a matter of the second.
    encoding = "plain" if work.segment.encoding == "attribute" else work.segment.encoding
    segment = work.segment._replace(before="", after="", separator="", capitals=False, encoding=encoding)
    assert work.model is not None
    wording = Wording(segment, work.model.tokenizer, work.spans)
    text = ""
    terms: list[Term] = []
    for token in tokens:
        part = wording.push(token, is_last=token is tokens[-1])
        term = None if token.term is None else segment.terms[token.term]
        if term is not None and term.is_copy and (place := part.find(term.translation)) >= 0:
            start = len(text) + place
            terms.append(Term(start, start + len(term.translation), term.translation, is_copy=True))
        text += part
    return Between(text, [] if segment.marks else terms)
