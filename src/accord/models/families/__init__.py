"""One file for each architecture family: a card -> its `Architecture`.

In: a `Card`. Out: `Architecture`. May import: terms, models.card, models.parts, models.graphs.
"""
