"""The speed of the HTTP process where engines compute nothing."""
