"""The operators that are swept: a written-out table.

In: nothing. Out: `operators()`, rows by name. Invariant: names are those of the reroute's rows where PyTorch has such
an operator.
"""

from collections.abc import Mapping

from accord.verify.operators import adding, composed, moving, products, quantized, rowwise, spatial
from accord.verify.operators.row import OperatorRow


def operators() -> Mapping[str, OperatorRow]:
    """All rows, by name, in the order in which they are swept."""
    groups = (products, quantized, spatial, rowwise, moving, adding, composed)
    found = [row for group in groups for row in group.rows()]
    return {row.name: row for row in found}
