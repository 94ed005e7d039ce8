"""Who may ask, and how much: API keys, rate limits, quotas. Knows nothing of HTTP."""
