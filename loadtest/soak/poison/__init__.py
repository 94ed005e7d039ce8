"""Loaded by the Pythons of the soak's server, by way of PYTHONPATH."""
