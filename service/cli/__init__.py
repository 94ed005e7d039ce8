"""The commands of `dragoman`."""
