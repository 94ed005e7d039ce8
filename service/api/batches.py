"""Batches of texts that the clients of other servers send."""

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import Request

from service.access.charges import Caller
from service.api.context import ServiceContext
from service.api.translate import until_finished
from service.translation.options import TranslationOptions
from service.translation.translator import FieldNames


class Wanted(NamedTuple):
    """Texts to translate as one batch; a source of None, or one of the automatic names, is detected."""

    texts: Sequence[str]
    source: str | None
    target: str
    options: TranslationOptions


class Translated(NamedTuple):
    """Texts with their translations, source languages and alternatives, in the order of the request."""

    originals: Sequence[str]
    texts: Sequence[str]
    sources: Sequence[str]
    alternatives: Sequence[Sequence[str]]
    source: str
    """The source language of the request, or the detected language of its first text."""
    target: str
    seconds: float


async def translated(
    request: Request, service: ServiceContext, caller: Caller, wanted: Wanted, names: FieldNames
) -> Translated:
    """Translate a batch, whose characters are charged. Raises `CallerLeft` and `ServiceError`."""
    texts, requested, target, options = wanted
    await service.check_open()
    with service.choosing_model():
        source, target = service.translator.direction(requested, target, names)
    async with service.access.charged(caller, sum(map(len, texts)), names.text):
        finished = await until_finished(request, service.translator.start(texts, requested, target, options, names))
    sources = [each.language for each in finished.detected] or [source] * len(texts)
    return Translated(
        originals=texts,
        texts=[each.text for each in finished.translations],
        sources=sources,
        alternatives=[[other.text for other in each.alternatives] for each in finished.translations],
        source=next(iter(sources), source),
        target=target,
        seconds=finished.timings.total_seconds,
    )
