"""Where a device computes wrong numbers: find it, prove it, say where, and route around it.

In: a device port, operators, shapes. Out: verdicts, `Quirk`s, workarounds. May import: terms.
"""

from accord.verify.reroute.apply import Applied, apply

__all__ = ["Applied", "apply"]
