"""Training of small translation models: corpora to memory-mapped ids, the loop, evaluation."""
