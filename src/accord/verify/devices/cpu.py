"""What this machine's processor has that kernel libraries look at.

In: /proc/cpuinfo. Out: names of features. Invariant: nothing where the file isn't there or names none.
"""

from pathlib import Path

_LOOKED_AT = ("avx2", "avx512", "avx_vnni", "amx", "sve", "asimd", "bf16", "i8mm")


def features() -> tuple[str, ...]:
    """Vector and matrix extensions, in order."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
    return tuple(sorted(flag for flag in flags if flag.startswith(_LOOKED_AT)))
