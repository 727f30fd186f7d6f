"""Model cards become stage graphs.

In: a model's name or card. Out: `StageGraph`. May import: terms.
"""
