"""Load on a running server by locust: scenarios, and the saturation curve."""
