"""Execution on a GPU: steps of fixed shapes, recorded as CUDA graphs and replayed.

None of it has run on a GPU yet. Tests run the same steps on a CPU, without graphs.
"""
