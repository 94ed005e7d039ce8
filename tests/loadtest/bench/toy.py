"""A shape and a comparison for tests of the peers."""

from typing import Final

from loadtest.bench.peers import Comparison
from model.config import ModelConfig

# Not smaller: narrow heads lack the precision in int8 to tell 80 positions apart.
TOY: Final = ModelConfig(
    vocab_size=128, d_model=128, ffn_dim=32, num_heads=2, encoder_layers=1, decoder_layers=1, max_positions=128
)
COMPARISON: Final = Comparison(
    shape="toy",
    mode="fp32",
    peers=["dragoman", "other"],
    cores=1,
    replicas=1,
    rounds=2,
    concurrency=[1, 4],
    batches=1,
)
