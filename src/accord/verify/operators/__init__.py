"""The operators that are swept, one row each, in files by kind; `table` lists them.

In: points. Out: calls, and what they must answer.
"""
