"""Language models alone: one file for each architecture family.

In: a `Card`. Out: `Architecture`. May import: terms, models.card, models.parts, models.graphs.
"""
