"""The families that are known: a written-out table.

In: nothing. Out: `FAMILIES`. Invariant: a `model_type` stands in one row only.
"""

from accord.models.families.decoders.table import FAMILIES as DECODERS
from accord.models.families.diffusion.table import FAMILIES as DIFFUSION
from accord.models.families.family import Family
from accord.models.families.omni.table import FAMILIES as OMNI
from accord.models.families.sight.table import FAMILIES as SIGHT

FAMILIES: tuple[Family, ...] = (*DECODERS, *SIGHT, *OMNI, *DIFFUSION)
