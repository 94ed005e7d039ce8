"""Dragoman on Ray Serve."""
