"""What is known of devices beyond the catalog: how engines fared on them, and what was measured of them here.

In: an `Architecture`, the home folder. Out: `Given`. Invariant: a file that is broken is said, not passed over.
"""

from pathlib import Path

from accord.edges.calibration_file import kept
from accord.edges.tuning_file import load_tunings
from accord.estimate.tuned import reaching
from accord.plan.fleet.question import Given
from accord.terms.architecture import Architecture


def known(architecture: Architecture, home: Path) -> Given:
    """Tunings that travel with Accord, and the calibrations that are kept here."""
    return Given(tunings=reaching(load_tunings(), architecture), calibrations=kept(home))
