"""Texts to sentences and back. Knows nothing of models: whether a sentence fits one, it is told."""
