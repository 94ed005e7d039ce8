"""Documents as jobs: queued, translated in the background, kept until they are downloaded. Knows no HTTP."""
