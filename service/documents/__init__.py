"""Documents: their formats and paragraphs, and the jobs that translate them. Knows no HTTP and no models."""
