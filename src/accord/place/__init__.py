"""Where a gang stands: concrete devices, with topology, fractions and gangs that are placed whole or not at all.

In: a `Gang` and a board made of a `Fleet`. Out: `Placement` or `Refusal`. May import: terms.
"""
