"""Continuous batching: scheduler, runner and loop in an engine process, and the handle that owns one."""
