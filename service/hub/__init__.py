"""Public models by name: names, indexes, downloads and the cache. Knows neither HTTP serving nor engines."""
