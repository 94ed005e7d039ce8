"""Routes for browser extensions and tools, each in the shape of another server."""
