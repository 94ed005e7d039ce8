"""Load on a running server, and comparisons with other engines. Never imported by `model` or `service`."""
