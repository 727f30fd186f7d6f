"""Chooses for one machine: how many threads and replicas each stage of an embedded model gets.

In: an `Intent`, a `Model`, measured `StageSpeed`s and a `Machine`. Out: a `Plan` or a `Refusal`. May import: terms.
"""
