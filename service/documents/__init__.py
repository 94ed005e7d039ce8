"""Documents: which formats there are, and what a paragraph is in each. Knows no HTTP, no models and no jobs."""
