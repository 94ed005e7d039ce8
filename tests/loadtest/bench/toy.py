"""A shape for tests of the peers."""

from typing import Final

from model.config import ModelConfig

# Not smaller: narrow heads lack the precision in int8 to tell 80 positions apart.
TOY: Final = ModelConfig(
    vocab_size=128, d_model=128, ffn_dim=32, num_heads=2, encoder_layers=1, decoder_layers=1, max_positions=128
)
