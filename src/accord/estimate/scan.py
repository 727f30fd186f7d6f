"""FLOPs of recurrences: one token at a time, or chunk by chunk with matrix multiplies.

In: a `Scan`, a `Load`, the phase. Out: FLOPs.
"""

from accord.terms.work import Load, Phase, Scan


def scan_flops(scan: Scan, load: Load, phase: Phase) -> float:
    """FLOPs over all layers and the batch: update and read of the state, 2 * 2 * heads * key x value a unit."""
    del phase
    return 4.0 * scan.heads * scan.key_dim * scan.value_dim * len(scan.layers) * load.new * load.batch
