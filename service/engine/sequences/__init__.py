"""One request's growing translation: the rows that it has in a step, and its use of their results.

Pure Python: what is chosen in a row comes from `token_selection`.
"""
