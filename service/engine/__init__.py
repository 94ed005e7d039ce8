"""Continuous batching in an engine process: scheduler, runner and loop."""
