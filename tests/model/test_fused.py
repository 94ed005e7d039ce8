"""The fused int8 transformer: what the modules give with `Int8Linear`, on any processor, and blind to other rows."""

import copy
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from model.attention import attention_weights
from model.cache import SlotCache
from model.config import Activation, ModelConfig, NormOrder
from model.fused import FusedScores, FusedTransformer
from model.kernels.compiler import VARIANTS
from model.layers import DecoderLayer
from model.linear import Int8Linear, replace_linears
from model.transformer import Transformer
from tests.conftest import random_model

SLOTS = 12

pytestmark = pytest.mark.usefixtures("operators")


# Sizes that fill no block, no group and no vector.
def _config(norm_order: NormOrder = "pre", activation: Activation = "relu") -> ModelConfig:
    return ModelConfig(
        vocab_size=777,
        d_model=42,
        ffn_dim=131,
        num_heads=3,
        encoder_layers=2,
        decoder_layers=2,
        max_positions=40,
        norm_order=norm_order,
        activation=activation,
    )


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    best, *_ = available = torch.ops.dragoman.variants()
    if request.param not in available:
        pytest.skip(f"this processor does not run {request.param}")
    torch.ops.dragoman.choose_variant(request.param)
    yield str(request.param)
    torch.ops.dragoman.choose_variant(best)


class Side:
    """A fused model with a cache of its own."""

    def __init__(self, model: Transformer) -> None:
        self.cache = SlotCache(model.config, slots=SLOTS, max_source_length=20, max_target_length=20)
        self.fused = FusedTransformer(model, self.cache)

    def encode(self, sources: Sequence[Tensor], slots: Sequence[int]) -> None:
        self.fused.encode(*_packed(sources), slots)

    def decode(self, tokens: Tensor, positions: Tensor, slots: Tensor, lengths: Tensor) -> FusedScores:
        everything = list(range(len(tokens)))
        return self.fused.decode(tokens, positions, slots, slots, lengths, everything, everything)


def _sources(count: int, config: ModelConfig) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(1, 20, (count,), generator=generator).tolist()
    return [torch.randint(3, config.vocab_size, (length,), generator=generator) for length in lengths]


def _packed(sources: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    lengths = [len(source) for source in sources]
    positions = torch.cat([torch.arange(length) for length in lengths])
    return torch.cat(list(sources)), positions, torch.tensor([0, *lengths]).cumsum(0)


@pytest.mark.parametrize("variant", VARIANTS, indirect=True)
@pytest.mark.parametrize("norm_order", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_it_is_the_model_with_int8_linears(variant: str, norm_order: NormOrder, activation: Activation) -> None:
    config = _config(norm_order, activation)
    model = random_model(config)
    side, cache = Side(model), SlotCache(config, slots=SLOTS, max_source_length=20, max_target_length=20)
    plain = copy.deepcopy(model)
    replace_linears(plain, lambda linear: Int8Linear(linear, operator=False))
    sources = _sources(5, config)
    slots, lengths = [7, 0, 11, 3, 2], torch.tensor([len(source) for source in sources])
    side.encode(sources, slots)
    ids, positions, offsets = _packed(sources)
    where = torch.tensor(slots)
    with torch.inference_mode():
        cache.write_source(slots, lengths.tolist(), plain.encode_packed(ids[None], positions[None], offsets))
        for name, arena in side.cache.arenas().items():
            _assert_nearly_equal(arena, cache.arenas()[name])
        tokens = torch.full_like(lengths, config.bos_id)
        for position in range(6):
            places = torch.full_like(lengths, position)
            logits = plain.decode(
                tokens[:, None],
                places[:, None],
                None,
                cache.source(where[:, None], lengths[:, None]),
                None,
                cache.rows(where[:, None], places[:, None]),
            )[:, 0]
            scores = side.decode(tokens, places, where, lengths)
            _assert_nearly_equal(scores.logits, logits)
            (tokens,) = scores.best.tokens


def _assert_nearly_equal(ours: Tensor, expected: Tensor) -> None:
    """Floats that differ in the last bit are sometimes rounded to neighbouring integers, hence not closer than this."""
    assert (ours - expected).norm() <= 0.01 * expected.norm()


def test_the_best_token_is_the_largest_logit() -> None:
    config = _config()
    side = Side(random_model(config))
    sources = _sources(SLOTS, config)
    side.encode(sources, list(range(SLOTS)))
    tokens, slots = torch.arange(SLOTS), torch.arange(SLOTS)
    scores = side.decode(tokens, torch.zeros_like(slots), slots, torch.tensor([len(each) for each in sources]))
    best = scores.logits.max(dim=-1)
    assert scores.best.tokens.tolist() == [best.indices.tolist()]
    torch.testing.assert_close(scores.best.logprobs[0], scores.logits.log_softmax(-1).amax(-1), rtol=1e-5, atol=1e-5)


def test_of_equal_logits_the_first_is_best() -> None:
    config = _config()
    model = random_model(config)
    with torch.no_grad():
        # 600 and 601 stand in another chunk than 5 does.
        for twin in (600, 601):
            model.embedding.weight[twin] = model.embedding.weight[5]
        model.embedding.weight[[5, 600, 601]] *= 20
    side = Side(model)
    sources = _sources(SLOTS, config)
    side.encode(sources, list(range(SLOTS)))
    slots = torch.arange(SLOTS)
    scores = side.decode(slots, slots * 0, slots, torch.tensor([len(each) for each in sources]))
    twins = scores.logits.argmax(dim=-1) == 5
    assert twins.any()
    assert scores.best.tokens[0, twins].eq(5).all()


@pytest.mark.parametrize("variant", VARIANTS, indirect=True)
def test_a_row_has_the_same_bits_alone_and_among_others(variant: str) -> None:
    config = _config()
    model = random_model(config)
    together, alone = Side(model), Side(model)
    sources = _sources(SLOTS, config)
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
    for name, arena in together.cache.arenas().items():
        assert torch.equal(arena, alone.cache.arenas()[name]), name


@pytest.mark.parametrize("activation", ["relu", "swish"])
def test_every_variant_gives_the_same_bits(activation: Activation) -> None:
    """So that a stream can go on in a process on another kind of machine. (GELU is the C library's.)"""
    config = _config(activation=activation)
    model = random_model(config)
    sources = _sources(SLOTS, config)
    slots, lengths = torch.arange(SLOTS), torch.tensor([len(source) for source in sources])
    best, *others = torch.ops.dragoman.variants()
    results: list[FusedScores] = []
    arenas: list[dict[str, Tensor]] = []
    try:
        for variant in (best, *others):
            torch.ops.dragoman.choose_variant(variant)
            side = Side(model)
            side.encode(sources, slots.tolist())
            results.append(side.decode(slots, slots * 0, slots, lengths))
            arenas.append(side.cache.arenas())
    finally:
        torch.ops.dragoman.choose_variant(best)
    for scores, memory in zip(results[1:], arenas[1:], strict=True):
        for name, arena in memory.items():
            assert torch.equal(arena, arenas[0][name]), name
        assert torch.equal(scores.logits, results[0].logits)
        assert torch.equal(scores.best.logprobs, results[0].best.logprobs)


def test_no_rows_are_refused() -> None:
    side = Side(random_model(_config()))
    none = torch.tensor([], dtype=torch.int64)
    with pytest.raises(RuntimeError, match="no rows"):
        side.decode(none, none, none, none)


def test_threads_change_nothing() -> None:
    config = _config()
    config = config.model_copy(update={"d_model": 192, "ffn_dim": 512, "vocab_size": 4000})
    model = random_model(config)
    sources = _sources(SLOTS, config)
    slots, lengths = torch.arange(SLOTS), torch.tensor([len(source) for source in sources])
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            side = Side(model)
            side.encode(sources, slots.tolist())
            results.append(side.decode(slots, slots * 0, slots, lengths))
    finally:
        torch.set_num_threads(before)
    for one, three in zip(results[0].best + results[0][1:], results[1].best + results[1][1:], strict=True):
        assert torch.equal(one, three)


def test_several_positions_of_a_slot_at_once_are_as_one_after_the_other() -> None:
    config = _config()
    model = random_model(config)
    once, stepwise = Side(model), Side(model)
    source = _sources(1, config)
    for side in (once, stepwise):
        side.encode(source, [4])
    tokens, positions = torch.tensor([1, 50, 60, 70]), torch.arange(4)
    slots, lengths = torch.full((4,), 4), torch.full((4,), len(source[0]))
    scores = once.decode(tokens, positions, slots, lengths)
    for row in range(4):
        one = slice(row, row + 1)
        single = stepwise.decode(tokens[one], positions[one], slots[one], lengths[one])
        assert torch.equal(single.logits[0], scores.logits[row])


def test_steps_ahead_are_the_steps_that_would_have_followed() -> None:
    config = _config()
    model = random_model(config)
    ahead, stepwise = Side(model), Side(model)
    sources = _sources(SLOTS, config)
    slots, lengths = torch.arange(SLOTS), torch.tensor([len(source) for source in sources])
    for side in (ahead, stepwise):
        side.encode(sources, slots.tolist())
    scores = ahead.fused.decode(slots, slots * 0, slots, slots, lengths, ahead=5, seconds=60.0)
    assert len(scores.best.tokens) == 6
    tokens = slots
    for position, (best, logprobs) in enumerate(zip(*scores.best, strict=True)):
        single = stepwise.decode(tokens, slots * 0 + position, slots, lengths)
        (tokens,) = single.best.tokens
        assert torch.equal(best, tokens)
        assert torch.equal(logprobs, single.best.logprobs[0])


def test_steps_ahead_end_with_the_first_end_of_sentence_or_with_the_time() -> None:
    model = random_model(_config())
    slots, lengths = torch.arange(SLOTS), torch.ones(SLOTS, dtype=torch.int64)
    side = Side(model)
    side.encode([torch.tensor([5])] * SLOTS, slots.tolist())
    free = side.fused.decode(slots, slots * 0, slots, slots, lengths, ahead=9, seconds=60.0).best.tokens
    assert len(free) == 10
    assert len(side.fused.decode(slots, slots * 0, slots, slots, lengths, ahead=9, seconds=0.0).best.tokens) == 1
    eos = int(free[3, 7])
    first = int((free == eos).any(dim=1).nonzero()[0])
    ending = Transformer(model.config.model_copy(update={"eos_id": eos})).eval()
    ending.load_state_dict(model.state_dict())
    side = Side(ending)
    side.encode([torch.tensor([5])] * SLOTS, slots.tolist())
    stopped = side.fused.decode(slots, slots * 0, slots, slots, lengths, ahead=9, seconds=60.0).best.tokens
    assert torch.equal(stopped, free[: first + 1])


def test_hypotheses_share_a_source() -> None:
    config = _config()
    model = random_model(config)
    shared, own = Side(model), Side(model)
    (source,) = _sources(1, config)
    shared.encode([source], [2])
    own.encode([source, source], [2, 5])
    slots, lengths = torch.tensor([2, 5]), torch.full((2,), len(source))
    tokens, positions = torch.tensor([8, 9]), torch.tensor([0, 0])
    scores = shared.fused.decode(tokens, positions, slots, torch.tensor([2, 2]), lengths, [0, 1])
    assert torch.equal(scores.logits, own.decode(tokens, positions, slots, lengths).logits)


def test_alignment_is_what_the_last_layer_looks_at() -> None:
    config = _config()
    model = random_model(config)
    side = Side(model)
    plain = copy.deepcopy(model)
    replace_linears(plain, lambda linear: Int8Linear(linear, operator=False))
    sources = _sources(3, config)
    lengths = torch.tensor([len(source) for source in sources])
    slots = torch.arange(3)
    side.encode(sources, slots.tolist())
    tokens = torch.tensor([3, 4, 5])
    scores = side.fused.decode(tokens, slots * 0, slots, slots, lengths, [], [0, 2])
    layer = plain.decoder[-1]
    assert isinstance(layer, DecoderLayer)
    queries: list[Tensor] = []
    layer.cross_attention.query.register_forward_hook(lambda module, inputs, output: queries.append(output))
    with torch.inference_mode():
        plain.decode(
            tokens[:, None],
            slots[:, None] * 0,
            None,
            side.cache.source(slots[:, None], lengths[:, None]),
            None,
            SlotCache(config, slots=3, max_source_length=1, max_target_length=2).rows(
                slots[:, None], slots[:, None] * 0
            ),
        )
    keys = side.cache.arenas()["source_keys"][-1]
    for row, source in enumerate((0, 2)):
        length = int(lengths[source])
        query = queries[0][source].view(1, config.num_heads, 1, config.head_dim)
        weights = attention_weights(query, keys[source, :, :length][None], torch.zeros(1, 1, 1, length))
        torch.testing.assert_close(scores.alignment[row, :length], weights[0, :, 0].mean(0), rtol=1e-4, atol=1e-5)
        assert not scores.alignment[row, length:].any()


def test_what_is_outside_is_refused() -> None:
    side = Side(random_model(_config()))

    def decode(tokens: int = 0, positions: int = 0, slots: int = 0, source_slots: int = 0, length: int = 1) -> None:
        first, second, third = torch.tensor([tokens]), torch.tensor([positions]), torch.tensor([slots])
        side.fused.decode(first, second, third, torch.tensor([source_slots]), torch.tensor([length]), logit_rows)

    logit_rows = [0]
    decode()
    for refused, message in (
        ({"tokens": 777}, r"ids\[0\] is 777"),
        ({"tokens": -1}, r"ids\[0\] is -1"),
        ({"positions": 20}, r"positions\[0\] is 20"),
        ({"slots": SLOTS}, r"slots\[0\] is 12"),
        ({"source_slots": -1}, r"source_slots\[0\] is -1"),
        ({"length": 21}, r"source_lengths\[0\] is 21"),
    ):
        with pytest.raises(RuntimeError, match=message):
            decode(**refused)
    logit_rows = [1]
    with pytest.raises(RuntimeError, match="there is no row 1"):
        decode()
    for offsets in ([0, 2], [0, 0, 3], [1, 3]):
        with pytest.raises(RuntimeError, match=r"offsets|has 0 tokens"):
            side.fused.encode(torch.arange(3), torch.arange(3), torch.tensor(offsets), list(range(len(offsets) - 1)))


def test_sources_longer_than_the_arena_are_refused() -> None:
    side = Side(random_model(_config()))
    with pytest.raises(RuntimeError, match="source 0 has 21 tokens"):
        side.encode([torch.arange(21)], [0])


def test_neighbours_in_a_packed_batch_are_not_seen() -> None:
    """Each source's K/V depend on its own tokens only."""
    config = _config()
    model = random_model(config)
    sides = Side(model), Side(model)
    first, *others = _sources(4, config)
    sides[0].encode([first, *others], [0, 1, 2, 3])
    sides[1].encode([*(torch.full_like(each, 9) for each in others), first], [1, 2, 3, 0])
    for (name, arena), other in zip(sides[0].cache.arenas().items(), sides[1].cache.arenas().values(), strict=True):
        assert torch.equal(arena[:, 0], other[:, 0]), name
