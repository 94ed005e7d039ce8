"""Checks of what a server promises, each a command that exits with status 1 when a promise is broken."""
