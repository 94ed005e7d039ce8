"""The HTTP process's side of the engines: starts and replaces them, and keeps the state of every request."""
