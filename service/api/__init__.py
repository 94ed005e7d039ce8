"""Routes: wire types in, translator calls, wire types out."""
