"""How processes of engines are started: one file an engine, one row of the table each.

In: a plan, one of its pools, where the process runs. Out: `Launch`. Invariant: what a pool asks for and its engine has
no parameter for is in `Launch.lost`, never dropped; a pool's own options are the engine's to judge.
"""
