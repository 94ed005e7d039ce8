"""Quality over latency of live translation, and the number of speakers that a server carries."""
