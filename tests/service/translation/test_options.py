"""Requests that may share results."""

from typing import Any

import pytest

from service.engine.generation_request import Beam, Inspect, Sampling
from service.text.glossary import Glossary
from service.translation.options import TranslationOptions

PRIVATE = Glossary({"cat": "matou"})


@pytest.mark.parametrize(
    ("options", "scope"),
    [
        ({}, ""),
        ({"caller": "key:a"}, ""),
        ({"beam": Beam(4, alternatives=3), "target_prefix": "Le", "is_html": True, "is_background": True}, ""),
        ({"sampling": Sampling(0.5)}, None),
        ({"sampling": Sampling(0.5, seed=3), "has_seed": True}, ""),
        ({"sampling": Sampling(0.5), "has_seed": True}, ""),
        ({"inspect": Inspect(candidates=1)}, None),
        ({"inspect": Inspect(alignment=True)}, None),
        ({"inspect": Inspect(hypotheses=True), "beam": Beam(4)}, None),
        ({"inspect": Inspect(self_attention=True)}, None),
        ({"glossary": PRIVATE, "caller": "key:a"}, "key:a"),
        ({"glossary": PRIVATE}, None),
        ({"glossary": Glossary({}), "caller": "key:a"}, ""),
    ],
)
def test_the_scope_of_a_result(options: dict[str, Any], scope: str | None) -> None:
    assert TranslationOptions(**options).cache_scope == scope


def test_the_first_model_of_a_pivot_keeps_the_glossary_private() -> None:
    """Samples and what is inspected are the second model's alone."""
    sampled = TranslationOptions(sampling=Sampling(0.5), inspect=Inspect(candidates=1))
    assert sampled.of_first().cache_scope == ""
    assert TranslationOptions(glossary=PRIVATE, caller="key:a").of_first().cache_scope == "key:a"
    assert TranslationOptions(glossary=PRIVATE).of_first().cache_scope is None
