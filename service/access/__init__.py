"""Access control: API keys, rate limits and quotas. Knows nothing of HTTP."""
