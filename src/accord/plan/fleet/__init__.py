"""Chooses for a fleet: pools of replicas for each role of each stage, on which kinds, divided how, and how many.

In: an `Intent`, an `Architecture`, a `Fleet`. Out: ranked candidates for a `FleetPlan`, or a `Refusal`. May import:
terms, estimate.
"""
