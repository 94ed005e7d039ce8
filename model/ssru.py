"""The simpler simple recurrent unit (Kim et al. 2019, "From research to production and back", section 3.1)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.cache import DecoderCache
from model.config import ModelConfig


class SSRU(nn.Module):
    """A recurrent cell in the place of a decoder layer's self-attention.

    c[t] = f[t] * c[t - 1] + (1 - f[t]) * W x[t] with f[t] = sigmoid(V x[t] + b). The result is relu(c[t]), without a
    projection. What is known of earlier positions is one vector, however many there are.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.input = nn.Linear(config.d_model, config.d_model, bias=False)
        self.forget = nn.Linear(config.d_model, config.d_model)

    def forward(self, states: Tensor, mask: Tensor | None, cache: DecoderCache, layer: int) -> Tensor:
        """`states [batch, length, d_model]`; same shape back. `mask`, which only attention needs, is ignored."""
        forget = torch.sigmoid(self.forget(states).float())
        return F.relu(cache.recur(layer, forget, (1 - forget) * self.input(states))).to(states.dtype)
