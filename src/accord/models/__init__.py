"""Model cards become stage graphs with exact weights, caches and work; one file for each family.

In: a model's name or card. Out: `Architecture`, or `Model` for the embedded one. May import: terms, estimate.
"""
