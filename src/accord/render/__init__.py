"""Plans as pure text: manifests and command lines, one file a target.

In: a `FleetPlan`, the `Fleet` where one is known, `Options`. Out: `Rendered`, whose text is the same every time, and
which names what its target can't express. May import: terms.
"""
