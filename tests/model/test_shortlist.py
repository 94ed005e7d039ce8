"""Lexical shortlists: the words of each source, and the logits of these words alone."""

import re
from typing import Any

import pytest
import torch

from model.config import DecoderMemory, ModelConfig
from model.decode_step import Outputs, Queries
from model.kernels.compiler import VARIANTS
from model.shortlist import Shortlist
from tests.conftest import random_model
from tests.model.side import SLOTS, Side, fused_config, packed, random_sources
from tests.shortlists import random_shortlist, words_of


def test_each_source_has_its_own_words(config: ModelConfig) -> None:
    shortlist = random_shortlist(config)
    sources = [source.tolist() for source in random_sources(6, config)]
    required: list[list[int]] = [[], [50, 60, 50], [], [], [96], []]
    ids, _, _ = packed([torch.tensor(source) for source in sources])
    allowed = shortlist.allowed(ids, [len(source) for source in sources], required, config.vocab_size)
    found = [set(row.nonzero().flatten().tolist()) for row in allowed]
    assert found == [words_of(shortlist, *pair) for pair in zip(sources, required, strict=True)]
    assert len({len(words) for words in found}) > 2


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"words": torch.zeros(3)}, "wrong type"),
        ({"offsets": torch.tensor([0, 1, 2])}, r"offsets are \[3\], expected \[4\]"),
        ({"offsets": torch.tensor([0, 2, 1, 3])}, "do not cover the 3 words"),
        ({"offsets": torch.tensor([1, 1, 2, 3])}, "do not cover the 3 words"),
        ({"offsets": torch.tensor([0, 1, 2, 4])}, "do not cover the 3 words"),
        ({"words": torch.tensor([1, 5, 2], dtype=torch.int32)}, "none of the 5 of the target"),
        ({"words": torch.tensor([1, -1, 2], dtype=torch.int32)}, "none of the 5 of the target"),
        ({"always": torch.tensor([], dtype=torch.int32)}, "none of the 5 of the target"),
    ],
)
def test_problems_are_described(changes: dict[str, Any], problem: str) -> None:
    words = torch.tensor([4, 2, 1], dtype=torch.int32)
    shortlist = Shortlist(always=words[:1], offsets=torch.tensor([0, 1, 1, 3]), words=words)
    assert shortlist.problems(3, 5) == []
    [found] = shortlist._replace(**changes).problems(3, 5)
    assert re.search(problem, found)


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("sizes", [{}, {"d_model": 64, "ffn_dim": 192, "num_heads": 2, "projection_bias": True}])
@pytest.mark.parametrize("memory", ["self_attention", "ssru"])
@pytest.mark.parametrize("variant", VARIANTS, indirect=True)
def test_the_words_have_the_logits_that_they_have_among_all(
    variant: str, memory: DecoderMemory, sizes: dict[str, Any]
) -> None:
    """Every bit is the same, whatever the processor; all other words are impossible."""
    config = fused_config().model_copy(update={"decoder_memory": memory, **sizes})
    model, shortlist = random_model(config), random_shortlist(config)
    every, some = Side(model), Side(model, has_shortlist=True)
    sources = random_sources(SLOTS, config)
    lengths = [len(source) for source in sources]
    allowed = shortlist.allowed(torch.cat(sources), lengths, [[]] * SLOTS, config.vocab_size)
    every.encode(sources, list(range(SLOTS)))
    some.cpp.encode(*packed(sources), list(range(SLOTS)), allowed)
    slots = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(1))
    for position in range(3):
        tokens, places = slots * 7 % 90, torch.full_like(slots, position)
        expected = every.decode(tokens, places, slots, torch.tensor(lengths)[slots]).logits
        expected[~allowed[slots]] = -torch.inf
        scores = some.decode(tokens, places, slots, torch.tensor(lengths)[slots])
        assert torch.equal(scores.logits, expected)
        assert scores.best.tokens[0].tolist() == expected.argmax(-1).tolist()
        torch.testing.assert_close(scores.best.logprobs[0], expected.log_softmax(-1).amax(-1), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("operators")
def test_a_slot_without_words_is_refused() -> None:
    config = fused_config()
    side, [source] = Side(random_model(config), has_shortlist=True), random_sources(1, config)
    with pytest.raises(RuntimeError, match="words must be 1 x 777"):
        side.encode([source], [0])
    nothing = torch.zeros(1, config.vocab_size, dtype=torch.bool)
    side.cpp.encode(*packed([source]), [0], nothing)
    zero = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="slot 0 has no words"):
        side.cpp.decode(Queries(zero, zero, zero, zero, torch.tensor([len(source)])), Outputs([], [], []))
    with pytest.raises(RuntimeError, match="words must be 0 x 777"):
        Side(random_model(config)).cpp.encode(*packed([source]), [0], nothing)
