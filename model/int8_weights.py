"""The weights of a transformer as its C++ form takes them: linear layers in int8, all else in float32."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from model.quantized_linear import INT8_MAX, quantise_rows
from model.transformer import Transformer


def int8_weights(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of a model, and take those of linear layers out of it: the model cannot be used afterwards.

    Names as in `Transformer.state_dict`, except for linear layers that are applied to the same input: as one.
    """
    modules = dict(model.named_modules())
    target = model.embedding.weight.detach().float().contiguous()
    source = model.source_embedding
    yield "target_input.tokens", target
    yield "source_input.tokens", target if source is None else source.weight.detach().float().contiguous()
    yield "target_input.table", model.target_input.table.detach().float().contiguous()
    yield "source_input.table", model.source_input.table.detach().float().contiguous()
    for name, module in modules.items():
        if isinstance(module, nn.LayerNorm):
            yield f"{name}.weight", module.weight.detach().float().contiguous()
            yield f"{name}.bias", module.bias.detach().float().contiguous()
    names = {module: name for name, module in modules.items()}
    for name, parts in _linears(modules):
        rows = [_quantised(part, model.stored_scales.get(f"{names[part]}.weight")) for part in parts]
        quantised, scales = map(_together, zip(*rows, strict=True))
        for part in parts:
            del part.weight  # or there would be two of all of them
        yield f"{name}.weight", quantised.to(torch.int8)
        yield f"{name}.scale", scales
        yield f"{name}.bias", torch.cat([_bias(part) for part in parts])


def _quantised(linear: nn.Linear, stored: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return whole numbers and the scale of each row; those of a checkpoint in int8 as they were stored there."""
    weight = linear.weight.detach().float()
    if stored is not None:
        numbers = (weight * stored[:, None]).round_()
        if numbers.abs().max() <= INT8_MAX:
            return numbers, 1 / stored
    return quantise_rows(weight, INT8_MAX)


def _together(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def _linears(modules: dict[str, nn.Module]) -> Iterator[tuple[str, list[nn.Linear]]]:
    for name, module in modules.items():
        parent, _, own = name.rpartition(".")
        if not isinstance(module, nn.Linear) or own in {"key", "value", "forget"}:
            continue
        if own == "input":
            yield f"{parent}.recurrence", [module, *_siblings(modules, parent, "forget")]
        elif own != "query":
            yield name, [module]
        elif parent.endswith("self_attention"):
            yield f"{parent}.qkv", [module, *_siblings(modules, parent, "key", "value")]
        else:
            # The query is the target's, key and value are the source's.
            yield name, [module]
            yield f"{parent}.kv", _siblings(modules, parent, "key", "value")


def _siblings(modules: dict[str, nn.Module], parent: str, *names: str) -> list[nn.Linear]:
    return [each for name in names if isinstance(each := modules[f"{parent}.{name}"], nn.Linear)]


def _bias(linear: nn.Linear) -> Tensor:
    return torch.zeros(linear.out_features) if linear.bias is None else linear.bias.detach().float()
