"""One request's growing translation: the rows that it has in a step, and its use of their results.

Pure Python: what is chosen in a row comes from `token_selection`.
"""

from collections.abc import Sequence

from service.engine.generation_request import GenerationRequest
from service.engine.sequences.beam import BeamSequence
from service.engine.sequences.sequence import TargetSequence
from service.engine.sequences.single import SingleSequence


def sequence_of(request: GenerationRequest, slots: Sequence[int], eos_id: int) -> TargetSequence:
    """Return the sequence of a request that has just been given its slots."""
    return (BeamSequence if request.search.beam.size > 1 else SingleSequence)(request, slots, eos_id)
