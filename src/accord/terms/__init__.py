"""The vocabulary: the frozen values that flow between rooms, and nothing else.

In: nothing. Out: types. May import: nothing of ours.
"""
