"""A made-up vendor's plug-in for PyTorch: the device `vex`, which computes on the CPU and is wrong where it is told.

In: `import torch` with this folder on the path, which loads the plug-in by its entry point, as a vendor's is loaded;
`VEX_FAULTS` (names of rows of `faults`, or `all`; none when unset). Out: the device. Invariant: without a fault it
answers with the CPU's bits.
"""


def autoload() -> None:
    """What PyTorch calls at the end of its own import."""
    import os

    from torch_vex import backend
    from torch_vex.faults import FAULTS

    wanted = os.environ.get("VEX_FAULTS", "").split(",")
    backend.start([fault for fault in FAULTS if fault.name in wanted or wanted == ["all"]])
