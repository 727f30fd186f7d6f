"""Accord: declare the intent of an AI inference service; Accord delivers it.

Read `compile.py`, `operate.py` and `explain.py` first: they tell the whole story.
"""

__version__ = "0.1.0"
