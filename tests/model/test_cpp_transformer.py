"""The C++ int8 transformer computes what the modules give with `Int8Linear`, on any processor."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.config import Activation, ModelConfig, NormOrder
from model.cpp_transformer import KV_DTYPE, CppTransformer
from model.decode_step import NO_OUTPUTS, Queries
from model.int8_weights import int8_weights
from model.kernels.compiler import VARIANTS
from model.quantized_linear import Int8Linear, replace_linears
from model.slot_cache import SlotCache
from model.slot_decoder import Width, decode
from model.transformer import Transformer
from tests.conftest import random_model
from tests.model.formats.marian_models import STUDENTS
from tests.model.side import SLOTS, Side, fused_config, random_sources

pytestmark = pytest.mark.usefixtures("operators")


# tests/model/formats/marian_models.py: a head of base-memory has 48 numbers, which are no whole number of vectors.
_FIREFOX: list[dict[str, Any]] = [
    {
        "d_model": size["dim-emb"],
        "ffn_dim": size["transformer-dim-ffn"],
        "num_heads": size["transformer-heads"],
        "encoder_layers": size["enc-depth"],
        "decoder_layers": size["dec-depth"],
        "decoder_memory": "ssru",
        "norm_order": "post",
    }
    for size in STUDENTS.values()
]


@pytest.mark.parametrize("variant", VARIANTS, indirect=True)
@pytest.mark.parametrize("norm_order", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_it_is_the_model_with_int8_linears(variant: str, norm_order: NormOrder, activation: Activation) -> None:
    _assert_is_the_model(fused_config(norm_order, activation))


@pytest.mark.parametrize(
    "kind",
    [
        {"positions": "table", "scale_embedding": False},
        {"embedding_norm": True, "projection_bias": True},
        {"source_vocab_size": 500, "tied_projection": False},
        {"decoder_memory": "ssru"},
        {"decoder_memory": "ssru", "norm_order": "post", "norm_epsilon": 1e-3},
        *_FIREFOX,
    ],
)
def test_public_checkpoints_differ_from_ours(kind: dict[str, Any]) -> None:
    _assert_is_the_model(fused_config().model_copy(update=kind))


def test_numbers_that_were_stored_in_int8_stay_as_they_are() -> None:
    """A row whose largest number is not 127 would otherwise get another scale, and other numbers."""
    config = fused_config()
    model = random_model(config)
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                scales = torch.full((module.out_features,), 100 / float(module.weight.abs().max()))
                module.weight.copy_((module.weight * scales[:, None]).round() / scales[:, None])
                model.stored_scales[f"{name}.weight"] = scales
    weights = dict(int8_weights(copy.deepcopy(model)))
    for part, name in enumerate(("query", "key", "value")):
        stored = model.get_parameter(f"encoder.0.self_attention.{name}.weight")
        rows = slice(part * config.d_model, (part + 1) * config.d_model)
        numbers, scales = (weights[f"encoder.0.self_attention.qkv.{kind}"][rows] for kind in ("weight", "scale"))
        torch.testing.assert_close(numbers * scales[:, None], stored, rtol=1e-6, atol=1e-7)
        assert numbers.abs().max() <= 100


@pytest.mark.parametrize("variant", VARIANTS, indirect=True)
def test_keys_and_values_are_rounded_to_the_nearest_number_of_16_bits(variant: str) -> None:
    config = fused_config()
    model = random_model(config)
    half = 2.0**-8  # between two neighbours from 1 on
    numbers = torch.tensor([1 + half, 1 + 3 * half, 1 + half + 1e-6, -1 - half - 1e-6, 0.0, 1e-40, torch.inf])
    projections = {
        f"source_{kind}s": model.get_submodule(f"decoder.0.cross_attention.{kind}") for kind in ("key", "value")
    }
    with torch.no_grad():
        for projection in projections.values():
            projection.get_parameter("weight").zero_()
            projection.get_parameter("bias").copy_(torch.cat([numbers, torch.randn(config.d_model - len(numbers))]))
    side = Side(copy.deepcopy(model))
    side.encode([torch.tensor([3, 4])], [5])
    for name, projection in projections.items():
        expected = projection.get_parameter("bias").detach().bfloat16().view(config.num_heads, config.head_dim)
        assert torch.equal(side.cache.buffers()[name][0, 5, :, 1].view(torch.int16), expected.view(torch.int16))


def test_what_it_does_not_know() -> None:
    kinds: list[dict[str, Any]] = [
        {"norm": "rms"},
        {"gated": True},
        {"positions": "relative"},
        {"head_size": 5},
    ]
    assert not any(CppTransformer.supports(fused_config().model_copy(update=kind)) for kind in kinds)


def _with_int8_linears(model: Transformer) -> Transformer:
    """A copy that rounds the decoder's keys and values to the cache's 16 bits, too."""
    plain = copy.deepcopy(model)
    replace_linears(plain, lambda linear: Int8Linear(linear, operator=False))
    for name, module in plain.decoder.named_modules():
        if name.endswith((".key", ".value")):
            module.register_forward_hook(lambda module, inputs, output: output.to(KV_DTYPE).to(output.dtype))
    return plain


def _assert_is_the_model(config: ModelConfig) -> None:
    model = random_model(config)
    with torch.no_grad():
        # In wide layers, loud weights would make a choice of each attention, which one rounding can turn over.
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.weight.mul_((fused_config().d_model / config.d_model) ** 0.5)
    side, cache = Side(model), SlotCache(config, slots=SLOTS, max_source_length=20, max_target_length=20)
    plain = _with_int8_linears(model)
    sources = random_sources(5, config)
    slots, lengths = [7, 0, 11, 3, 2], torch.tensor([len(source) for source in sources])
    side.encode(sources, slots)
    where = torch.tensor(slots)
    with torch.inference_mode():
        for slot, source in zip(where[:, None], sources, strict=True):
            cache.write_padded_source(slot, plain.encode(source[None], torch.zeros(1, 1, 1, len(source))))
        for name, buffer in side.cache.buffers().items():
            _assert_nearly_equal(buffer, cache.buffers()[name])
        tokens = torch.full_like(lengths, config.bos_id)
        for position in range(6):
            places = torch.full_like(lengths, position)
            logits = decode(plain, cache, Queries(tokens, places, where, where, lengths), Width(20, position + 1))
            scores = side.decode(tokens, places, where, lengths)
            _assert_nearly_equal(scores.logits, logits)
            (tokens,) = scores.best.tokens


def _assert_nearly_equal(ours: Tensor, expected: Tensor) -> None:
    """Floats that differ in the last bit are sometimes rounded to neighbouring integers, or others of 16 bits, hence
    not closer than this."""
    assert (ours - expected).norm() <= 0.03 * expected.norm()


def test_of_equal_logits_the_first_is_best() -> None:
    config = fused_config()
    model = random_model(config)
    with torch.no_grad():
        # 600 and 601 stand in another chunk than 5 does.
        for twin in (600, 601):
            model.embedding.weight[twin] = model.embedding.weight[5]
        model.embedding.weight[[5, 600, 601]] *= 20
    side = Side(model)
    sources = random_sources(SLOTS, config)
    side.encode(sources, list(range(SLOTS)))
    slots = torch.arange(SLOTS)
    scores = side.decode(slots, slots * 0, slots, torch.tensor([len(each) for each in sources]))
    twins = scores.logits.argmax(dim=-1) == 5
    assert twins.any()
    assert scores.best.tokens[0, twins].eq(5).all()


def test_no_rows_are_refused() -> None:
    side = Side(random_model(fused_config()))
    none = torch.tensor([], dtype=torch.int64)
    with pytest.raises(RuntimeError, match="no rows"):
        side.decode(none, none, none, none)


def _both(model: Transformer, sources: list[Tensor], slots: list[int]) -> tuple[Side, Transformer, SlotCache]:
    """Return a model in C++ and in PyTorch with its cache, both with these sources encoded."""
    side = Side(model)
    cache = SlotCache(model.config, slots=SLOTS, max_source_length=20, max_target_length=20)
    side.encode(sources, slots)
    for name in ("source_keys", "source_values"):
        cache.buffers()[name].copy_(side.cache.buffers()[name])
    return side, _with_int8_linears(model), cache


def test_alignment_is_what_the_last_layer_looks_at() -> None:
    config = fused_config()
    sources = random_sources(3, config)
    lengths = torch.tensor([len(source) for source in sources])
    slots = torch.arange(3)
    side, plain, cache = _both(random_model(config), sources, slots.tolist())
    queries = Queries(torch.tensor([3, 4, 5]), slots * 0, slots, slots, lengths)
    scores = side.cpp.decode(queries, NO_OUTPUTS._replace(alignment=[0, 2]))
    weights: list[Tensor] = []
    with torch.inference_mode():
        decode(plain, cache, queries, Width(scores.alignment.shape[1], 1), weights.append)
    torch.testing.assert_close(scores.alignment, weights[0][[0, 2]], rtol=1e-4, atol=1e-5)
    for row, source in enumerate((0, 2)):
        assert not scores.alignment[row, lengths[source] :].any()


def test_self_attention_is_what_each_layer_looks_at() -> None:
    """Rows of two slots at several positions each see their own slot up to their own position; others are not
    returned."""
    config = fused_config()
    sources = random_sources(2, config)
    side, plain, cache = _both(random_model(config), sources, [4, 1])
    tokens, positions = torch.tensor([1, 50, 60, 70, 1]), torch.tensor([0, 1, 2, 3, 0])
    slots = torch.tensor([4, 4, 4, 4, 1])
    lengths = torch.tensor([len(sources[0])] * 4 + [len(sources[1])])
    queries = Queries(tokens, positions, slots, slots, lengths)
    scores = side.cpp.decode(queries, NO_OUTPUTS._replace(self_attention=[1, 3, 4]))
    assert scores.self_attention.shape == (3, config.decoder_layers, 4)
    layers: list[Tensor] = []
    with torch.inference_mode():
        decode(plain, cache, queries, Width(20, 4), on_self_attention=lambda _, weights: layers.append(weights))
    for number, row in enumerate((1, 3, 4)):
        for layer, weights in enumerate(layers):
            own = scores.self_attention[number, layer]
            torch.testing.assert_close(own, weights[row], rtol=1e-4, atol=1e-5)
            assert not own[positions[row] + 1 :].any()


def test_what_is_outside_is_refused() -> None:
    side = Side(random_model(fused_config()))

    def step(tokens: int = 0, positions: int = 0, slots: int = 0, source_slots: int = 0, length: int = 1) -> None:
        first, second, third = torch.tensor([tokens]), torch.tensor([positions]), torch.tensor([slots])
        side.cpp.decode(
            Queries(first, second, third, torch.tensor([source_slots]), torch.tensor([length])),
            NO_OUTPUTS._replace(logits=logit_rows),
        )

    logit_rows = [0]
    step()
    for refused, message in (
        ({"tokens": 777}, r"ids\[0\] is 777"),
        ({"tokens": -1}, r"ids\[0\] is -1"),
        ({"positions": 20}, r"positions\[0\] is 20"),
        ({"slots": SLOTS}, r"slots\[0\] is 12"),
        ({"source_slots": -1}, r"source_slots\[0\] is -1"),
        ({"length": 21}, r"source_lengths\[0\] is 21"),
        ({"length": 0}, "a source is empty"),
    ):
        with pytest.raises(RuntimeError, match=message):
            step(**refused)
    logit_rows = [1]
    with pytest.raises(RuntimeError, match="there is no row 1"):
        step()
    one, first = torch.tensor([1]), torch.tensor([0])
    for aligned, looking in (([1], []), ([], [-1])):
        with pytest.raises(RuntimeError, match="there is no row"):
            side.cpp.decode(
                Queries(first, first, first, first, one), NO_OUTPUTS._replace(alignment=aligned, self_attention=looking)
            )
    for offsets in ([0, 2], [0, 0, 3], [1, 3]):
        with pytest.raises(RuntimeError, match=r"offsets|has 0 tokens"):
            side.cpp.encode(torch.arange(3), torch.arange(3), torch.tensor(offsets), list(range(len(offsets) - 1)))


def test_sources_longer_than_the_buffer_are_refused() -> None:
    side = Side(random_model(fused_config()))
    with pytest.raises(RuntimeError, match="source 0 has 21 tokens"):
        side.encode([torch.arange(21)], [0])
