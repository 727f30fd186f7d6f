"""Chooses: graph + estimates + objectives -> ranked candidates or Refusals.

In: an intent, a model, and a machine (`local/`) or a fleet (`fleet/`). Out: a plan or a `Refusal`.
May import: terms, estimate. Pure: the same question always has the same answer.
"""
