"""A process of the server: its command line, its hardware and its logs."""
