"""Routes that browser extensions and tools speak, each in the shape of another server."""
