"""Where a device computes wrong numbers: find it, prove it, say where, and route around it.

In: a device port, operators, shapes. Out: verdicts, `Quirk`s, workarounds. May import: terms.
"""
