"""The encoder-decoder transformer of Dragoman: no HTTP, no threads, no environment."""
