"""The folder that the benchmark puts on the path of the processes that it starts."""
