"""The C++ int8 transformer's bits: the same alone and among others, on any processor, however steps are taken."""

import os
import resource
from pathlib import Path
from typing import Final

import pytest
import torch
from torch import Tensor

from model import kernels
from model.config import Activation, DecoderMemory, ModelConfig
from model.cpp_transformer import DecodeScores
from model.decode_step import NO_OUTPUTS, NO_PLAIN_ROWS, PlainRows, Queries
from model.kernels import library
from model.kernels.compiler import VARIANTS
from model.sampling import SamplingParameters, noise_states, sample
from model.topk import Beams
from model.transformer import Transformer
from tests.conftest import random_model
from tests.model.side import SLOTS, Side, fused_config, packed, random_sources

pytestmark = pytest.mark.usefixtures("operators")

_TASKS: Final = Path("/proc/self/task")
_SIZES: Final[list[dict[str, int]]] = [{}, {"d_model": 64, "ffn_dim": 192, "num_heads": 2}]
"""Changes to `fused_config`: none, and sizes that fill the tiles of AMX, which other sizes do not use."""


@pytest.mark.parametrize("sizes", _SIZES)
@pytest.mark.parametrize("memory", ["self_attention", "ssru"])
@pytest.mark.parametrize("variant", VARIANTS, indirect=True)
def test_a_row_has_the_same_bits_alone_and_among_others(
    variant: str, memory: DecoderMemory, sizes: dict[str, int]
) -> None:
    config = fused_config().model_copy(update={"decoder_memory": memory, **sizes})
    model = random_model(config)
    together, alone = Side(model), Side(model)
    sources = random_sources(SLOTS, config)
    lengths = torch.tensor([len(source) for source in sources])
    together.encode(sources, list(range(SLOTS)))
    for slot, source in enumerate(sources):
        alone.encode([source], [slot])
    slots = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(1))
    for position in range(4):
        tokens, places = slots * 7 % 90, torch.full_like(slots, position)
        scores = together.decode(tokens, places, slots, lengths[slots])
        for row in range(SLOTS):
            one = slice(row, row + 1)
            single = alone.decode(tokens[one], places[one], slots[one], lengths[slots][one])
            assert torch.equal(single.logits[0], scores.logits[row])
            assert single.best.logprobs[0, 0] == scores.best.logprobs[0, row]
    for name, buffer in together.cache.buffers().items():
        assert torch.equal(buffer, alone.cache.buffers()[name]), name


@pytest.mark.parametrize("sizes", _SIZES)
@pytest.mark.parametrize("memory", ["self_attention", "ssru"])
@pytest.mark.parametrize(
    ("activation", "inner_bias"), [("relu", 0.0), ("relu", -3.0), ("relu", -9.0), ("gelu", 0.0), ("swish", 0.0)]
)
def test_every_variant_gives_the_same_bits(
    activation: Activation, inner_bias: float, memory: DecoderMemory, sizes: dict[str, int]
) -> None:
    """A stream can go on in a process on another kind of machine.

    With a bias below zero ReLU leaves few activations, or none, as in trained models.
    """
    config = fused_config(activation=activation).model_copy(update={"decoder_memory": memory, **sizes})
    model = random_model(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("feed_forward.inner.bias"):
                parameter.add_(inner_bias)
    sources = random_sources(SLOTS, config)
    slots, lengths = torch.arange(SLOTS), torch.tensor([len(source) for source in sources])
    best, *others = library.variants()
    results: list[DecodeScores] = []
    buffers: list[dict[str, Tensor]] = []
    try:
        for variant in (best, *others):
            library.choose_variant(variant)
            side = Side(model)
            side.encode(sources, slots.tolist())
            results.append(side.decode(slots, slots * 0, slots, lengths))
            buffers.append(side.cache.buffers())
    finally:
        library.choose_variant(best)
    for scores, kept in zip(results[1:], buffers[1:], strict=True):
        for name, buffer in kept.items():
            assert torch.equal(buffer, buffers[0][name]), name
        assert torch.equal(scores.logits, results[0].logits)
        assert torch.equal(scores.best.logprobs, results[0].best.logprobs)


def _large_config() -> ModelConfig:
    """A model that is large enough for several threads."""
    return fused_config().model_copy(update={"d_model": 192, "ffn_dim": 512, "vocab_size": 4000})


def _in_threads(side: Side, threads: int) -> list[Tensor]:
    """Run a large model in this many threads."""
    sources = random_sources(SLOTS, _large_config())
    slots, lengths = torch.arange(SLOTS), torch.tensor([len(source) for source in sources])
    beams = Beams(torch.tensor([[1, 3, 3], [4, 7, 9]]), torch.zeros(SLOTS))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        side.encode(sources, slots.tolist())
        scores = side.decode(slots, slots * 0, slots, lengths)
        ranked = side.cpp.decode(Queries(slots, slots * 0, slots, slots, lengths), beams=beams)
    finally:
        torch.set_num_threads(before)
    return [*scores.best, scores.logits, scores.alignment, *ranked.extensions]


def test_threads_change_nothing() -> None:
    side = Side(random_model(_large_config()))
    for one, three in zip(_in_threads(side, 1), _in_threads(side, 3), strict=True):
        assert torch.equal(one, three)


def test_an_exception_of_any_thread_reaches_the_caller() -> None:
    """And the next step finds the threads at work."""
    config = fused_config()
    side, before = Side(random_model(config), has_shortlist=True), torch.get_num_threads()
    sources, slots = packed(random_sources(SLOTS, config)), torch.arange(SLOTS)
    lengths = sources[2].diff()
    words = torch.ones(SLOTS, config.vocab_size, dtype=torch.bool)
    torch.set_num_threads(3)
    try:
        for empty in [*range(SLOTS)] * 20:
            side.cpp.encode(*sources, slots.tolist(), words & (slots != empty).unsqueeze(1))
            with pytest.raises(RuntimeError, match=f"slot {empty} has no words"):
                side.decode(slots, slots * 0, slots, lengths)
        side.cpp.encode(*sources, slots.tolist(), words)
        side.decode(slots, slots * 0, slots, lengths)
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(not _TASKS.exists(), reason="this system has no /proc")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_system_without_threads_left_costs_speed_alone() -> None:
    side, threads = Side(random_model(_large_config())), 30
    before = _in_threads(side, 1)
    if not (child := os.fork()):
        equal = False
        try:
            used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            # Room for small tensors, and for no thread's stack but a few of the parent's.
            resource.setrlimit(resource.RLIMIT_AS, (used + 1_000_000, resource.RLIM_INFINITY))
            equal = all(map(torch.equal, before, _in_threads(side, threads)))
        finally:
            # A return would go on with the parent's tests.
            os._exit(0 if equal and len(list(_TASKS.iterdir())) < threads else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not _TASKS.exists(), reason="this system has no /proc")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_has_threads_of_its_own() -> None:
    side = Side(random_model(_large_config()))
    before = _in_threads(side, 3)
    if not (child := os.fork()):
        # Not by an exception or a return: that would go on with the parent's tests.
        equal = all(map(torch.equal, before, _in_threads(side, 3)))
        os._exit(0 if equal and len(list(_TASKS.iterdir())) >= 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("memory", ["self_attention", "ssru"])
def test_several_positions_of_a_slot_at_once_are_as_one_after_the_other(memory: DecoderMemory) -> None:
    config = fused_config().model_copy(update={"decoder_memory": memory})
    model = random_model(config)
    once, stepwise = Side(model), Side(model)
    source = random_sources(1, config)
    for side in (once, stepwise):
        side.encode(source, [4])
    tokens, positions = torch.tensor([1, 50, 60, 70]), torch.arange(4)
    slots, lengths = torch.full((4,), 4), torch.full((4,), len(source[0]))
    scores = once.decode(tokens, positions, slots, lengths)
    for row in range(4):
        one = slice(row, row + 1)
        for _ in range(2):  # a step may be repeated
            single = stepwise.decode(tokens[one], positions[one], slots[one], lengths[one])
            assert torch.equal(single.logits[0], scores.logits[row])


def _room(count: int, rows: int = SLOTS) -> PlainRows:
    return NO_PLAIN_ROWS._replace(rooms=torch.full((rows,), count))


def test_rows_end_within_a_block_by_end_of_sentence_and_by_length() -> None:
    model = random_model(fused_config())
    slots, lengths = torch.arange(SLOTS), torch.ones(SLOTS, dtype=torch.int64)
    queries = Queries(slots, slots * 0, slots, slots, lengths)
    side = Side(model)
    side.encode([torch.tensor([5])] * SLOTS, slots.tolist())
    free = side.cpp.decode(queries, plain=_room(50), steps=10, seconds=60.0).best
    assert len(free.tokens) == 10
    assert len(side.cpp.decode(queries, plain=_room(50), steps=10, seconds=0.0).best.tokens) == 1
    eos = int(free.tokens[3, 7])
    ending = Transformer(model.config.model_copy(update={"eos_id": eos})).eval()
    ending.load_state_dict(model.state_dict())
    side = Side(ending)
    side.encode([torch.tensor([5])] * SLOTS, slots.tolist())
    rooms = torch.full((SLOTS,), 50)
    rooms[2] = 6
    scores = side.cpp.decode(queries, plain=NO_PLAIN_ROWS._replace(rooms=rooms), steps=10, seconds=60.0)
    ends = [next((i + 1 for i, each in enumerate(row) if each == eos), 10) for row in free.tokens.T.tolist()]
    ends[2] = min(ends[2], 6)
    assert scores.counts.tolist() == ends
    assert len(set(ends)) > 2
    for row, count in enumerate(ends):
        assert torch.equal(scores.best.tokens[:count, row], free.tokens[:count, row])
        assert torch.equal(scores.best.logprobs[:count, row], free.logprobs[:count, row])


@pytest.mark.parametrize("memory", ["self_attention", "ssru"])
def test_a_block_has_the_steps_that_would_have_followed(memory: DecoderMemory) -> None:
    """Every third row is greedy, the others are sampled from their logits."""
    config = fused_config().model_copy(update={"decoder_memory": memory})
    model = random_model(config)
    block, stepwise = Side(model), Side(model)
    sources = random_sources(SLOTS, config)
    slots, lengths = torch.arange(SLOTS), torch.tensor([len(source) for source in sources])
    for side in (block, stepwise):
        side.encode(sources, slots.tolist())
    plain = PlainRows(
        torch.full((SLOTS,), 50), slots % 3 * 0.7, slots % 2 * 5, 1 - slots % 4 * 0.1, slots * 1_000_003 - 5
    )
    queries = Queries(slots, slots * 0, slots, slots, lengths)
    scores = block.cpp.decode(queries, plain=plain, steps=5, seconds=60.0)
    assert len(scores.best.tokens) == 5
    tokens = slots
    for position, (best, logprobs) in enumerate(zip(*scores.best, strict=True)):
        single = stepwise.decode(tokens, slots * 0 + position, slots, lengths)
        noise = noise_states(plain.seeds, slots * 0 + position)
        drawn = sample(single.logits, SamplingParameters(plain.temperatures, plain.top_ks, plain.top_ps, noise))
        is_greedy = plain.temperatures == 0
        assert torch.equal(best, drawn.tokens)
        assert torch.equal(logprobs, torch.where(is_greedy, single.best.logprobs[0], drawn.logprobs))
        tokens = best


def test_wrong_descriptions_of_plain_rows_are_refused() -> None:
    side = Side(random_model(fused_config()))
    side.encode([torch.tensor([5])] * 2, [0, 1])
    slots = torch.arange(2)
    queries = Queries(slots, slots * 0, slots, slots, slots * 0 + 1)
    with pytest.raises(RuntimeError, match="only beams and plain rows"):
        side.cpp.decode(queries, plain=_room(5, rows=1), steps=2)
    with pytest.raises(RuntimeError, match="plain row 0 has no room"):
        side.cpp.decode(queries, plain=_room(0, rows=2))
    with pytest.raises(RuntimeError, match="3 of 2 rows are plain"):
        side.cpp.decode(queries, plain=_room(5, rows=3))


def test_hypotheses_share_a_source() -> None:
    config = fused_config()
    model = random_model(config)
    shared, own = Side(model), Side(model)
    (source,) = random_sources(1, config)
    shared.encode([source], [2])
    own.encode([source, source], [2, 5])
    slots, lengths = torch.tensor([2, 5]), torch.full((2,), len(source))
    tokens, positions = torch.tensor([8, 9]), torch.tensor([0, 0])
    scores = shared.cpp.decode(
        Queries(tokens, positions, slots, torch.tensor([2, 2]), lengths), NO_OUTPUTS._replace(logits=[0, 1])
    )
    assert torch.equal(scores.logits, own.decode(tokens, positions, slots, lengths).logits)


def test_a_beam_s_best_extensions_are_those_of_its_logits() -> None:
    config = fused_config()
    side = Side(random_model(config))
    sources = random_sources(SLOTS, config)
    slots, lengths = torch.arange(SLOTS), torch.tensor([len(source) for source in sources])
    side.encode(sources, slots.tolist())
    rows, totals = torch.tensor([[1, 3, 3], [4, 1, 6], [7, 4, 4]]), -torch.rand(SLOTS)
    logits = side.decode(slots, slots * 0, slots, lengths).logits
    found = side.cpp.decode(Queries(slots, slots * 0, slots, slots, lengths), beams=Beams(rows, totals)).extensions
    inside = [row for first, count, _ in rows.tolist() for row in range(first, first + count)]
    expected = kernels.best_extensions(logits[inside], totals[inside], [3, 1, 4], 12)
    for beam, size in enumerate([3, 6, 4]):
        assert torch.equal(found.parents[0, beam, : 2 * size], expected.parents[beam, : 2 * size])
        assert torch.equal(found.tokens[0, beam, : 2 * size], expected.tokens[beam, : 2 * size])
        torch.testing.assert_close(found.totals[0, beam, : 2 * size], expected.totals[beam, : 2 * size])
        torch.testing.assert_close(found.logprobs[0, beam, : 2 * size], expected.logprobs[beam, : 2 * size])
        assert found.totals[0, beam, 2 * size :].isneginf().all(), "filled up"
