"""Dragoman by Ray Serve."""
