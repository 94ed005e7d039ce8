"""The bytes that a step reads, counted by hand."""

import pytest

from loadtest.bench.bandwidth import bandwidth, bytes_per_token, decoder_weights
from loadtest.bench.workload import Request
from model.config import ModelConfig
from tests.loadtest.bench.toy import TOY


def test_bytes() -> None:
    """Two requests: 2 tokens with 3 of source, and 1 token with 5."""
    requests = [Request([4, 5, 2], 2), Request([4, 5, 6, 7, 2], 1)]
    looked_at = (3 + 1) + (3 + 2) + (5 + 1)
    kv = 2 * TOY.decoder_layers * TOY.d_model * looked_at / 3
    for rows in (1, 8):
        expected = 2 * (decoder_weights(TOY) / rows + kv)
        assert bytes_per_token(TOY, requests, rows, 2) == pytest.approx(expected)


def test_weights_are_the_decoders_and_the_projection() -> None:
    config = ModelConfig(vocab_size=10, d_model=4, ffn_dim=6, num_heads=2, encoder_layers=3, decoder_layers=1)
    attention, feed_forward, norm = 4 * (4 * 4 + 4), (4 * 6 + 6) + (6 * 4 + 4), 2 * 4
    assert decoder_weights(config) == 2 * attention + feed_forward + 3 * norm + norm + 10 * 4


def test_a_copy_takes_time() -> None:
    assert 0 < bandwidth("cpu", size=1 << 20) < 1e15
