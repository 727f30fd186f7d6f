"""A figure with its source.

In: nothing. Out: `Estimate`, `Source`. Invariant: no figure travels without saying where it is from.
"""

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """How a figure was had, strongest first."""

    MEASURED = "measured"
    MODELLED = "modelled"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """`value` in `unit`; `uncertainty` is relative (0.14 means plus or minus 14%)."""

    value: float
    unit: str
    source: Source
    uncertainty: float
