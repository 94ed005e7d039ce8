"""The wire types of the HTTP API, by noun. No module outside of `api` uses them."""
