"""The building blocks of families: each gives the tensors, operators and cache of one kind of module.

In: figures of a card, already checked. Out: `Parts`. May import: terms, models.card.
"""
