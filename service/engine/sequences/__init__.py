"""How one request's translation grows: which rows it has in a step, and what it makes of their results.

Pure Python: what is chosen in a row comes from `token_selection`.
"""

from collections.abc import Sequence

from service.engine.messages import GenerationRequest
from service.engine.sequences.beam import BeamWriter
from service.engine.sequences.sequence import Writer
from service.engine.sequences.single import SingleWriter


def writer_of(request: GenerationRequest, slots: Sequence[int], eos_id: int) -> Writer:
    """The writer of a request that has just been given its slots."""
    return (BeamWriter if request.search.beam.size > 1 else SingleWriter)(request, slots, eos_id)
