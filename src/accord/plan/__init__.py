"""Chooses: graph + estimates + objectives -> ranked candidates or Refusals.

In: an `Intent`, a `Model`, measured `StageSpeed`s and a `Machine`. Out: a `Plan` or a `Refusal`.
May import: terms, estimate. Pure: the same question always has the same answer.
"""
