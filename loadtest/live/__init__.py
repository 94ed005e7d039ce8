"""Speakers of live translation at a server: how long an update takes, and whether committed text stays."""
