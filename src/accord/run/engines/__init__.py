"""Engine adapters: each drives one existing engine through the `Engine` port.

In: an `EngineSpec`. Out: an `Engine`. May import: terms, run.ports, run.payloads. A new engine is one file
and one row of `ENGINES`. Heavy packages are imported inside `load`, never at import.
"""
