"""How processes of engines are started: one file an engine, one row of the table each.

In: a plan, one of its pools, where the process runs. Out: `Launch`. Invariant: an option that a pool has and an
engine doesn't is an error that names it, never dropped.
"""
