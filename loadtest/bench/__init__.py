"""Dragoman's engine and its peers, side by side on the same work."""
