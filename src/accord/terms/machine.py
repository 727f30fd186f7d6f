"""One machine, as far as it could be seen.

In: nothing. Out: `Machine`. Invariant: what could not be seen is None, never a guess.
Probing lives in `edges/machine.py`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Instructions(StrEnum):
    """Instruction sets that decide how fast the engines run."""

    AVX2 = "AVX2"
    AVX512 = "AVX-512"
    VNNI = "VNNI"
    AMX = "AMX"
    NEON = "NEON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What this process may use of a machine.

    `cores` counts what affinity and quota leave; `memory_bytes` is what can be had now without
    swapping; `shared_memory_bytes` is the free room for payload arenas (/dev/shm).
    """

    cores: int | None = None
    memory_bytes: int | None = None
    cpu_model: str | None = None
    instructions: frozenset[Instructions] | None = None
    shared_memory_bytes: int | None = None
