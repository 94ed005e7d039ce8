"""One request's growing translation: the rows that it has in a step, and its use of their results.

Pure Python: `token_selection` chooses the tokens of a row.
"""
