"""What a request asks for, by itself and with what it leaves out."""

import pytest

from service.schemas import TranslateRequest


@pytest.mark.parametrize(
    ("alternatives", "limit", "size"), [(0, 16, 1), (1, 16, 4), (5, 16, 6), (1, 3, 3), (1, 2, 2), (2, 2, 3), (1, 1, 2)]
)
def test_the_default_beam_is_as_wide_as_the_limit_allows(alternatives: int, limit: int, size: int) -> None:
    """Where the alternatives themselves are too many, the translator says so."""
    request = TranslateRequest(q="Yes.", source="en", target="fr", alternatives=alternatives)
    assert request.options(max_beam_size=limit).beam.size == size
