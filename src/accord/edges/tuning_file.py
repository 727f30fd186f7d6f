"""What engines reach on devices, `estimate/tuning.yaml` <-> `Tunings`.

In: the file that travels with Accord, or another of the same form. Out: `Tunings`; its text. Invariant: every figure
is one that `estimate/` knows, every factor is above 0; load(dump(tunings)) has the same figures.
"""

import functools
import math
from collections.abc import Mapping
from pathlib import Path

from accord.edges.typed_tree import typed
from accord.edges.yaml_tree import Limits, read_file
from accord.estimate import tuned
from accord.estimate.tuned import SERVED, TUNED, Effect, Tunings
from accord.terms.errors import BadInput

FILE = Path(tuned.__file__).parent / "tuning.yaml"
_KNOWN = frozenset((*TUNED, *SERVED))
_LIMITS = Limits(text_bytes_max=1 << 20, nodes_max=20_000)


@functools.cache
def load_tunings(file: Path = FILE) -> Tunings:
    """All that the file says. BadInput names the figure that is wrong."""
    found = typed(read_file(file, what="tuning", limits=_LIMITS), Tunings, field="tuning", fix="see tuning.yaml")
    _check(found.base, "base", also=frozenset())
    for number, effect in enumerate(found.effects):
        _check(effect.factors, f"effects[{number}].factors", also=frozenset(("kernels",)))
    return found


def dump_tunings(tunings: Tunings, *, remark: str) -> str:
    """The text: an effect a line. `remark` is written on top."""
    kinds = "".join(f"  {name}: [{', '.join(tags)}]\n" for name, tags in sorted(tunings.kinds.items()))
    effects = "".join(f"  - {_line(effect)}\n" for effect in tunings.effects)
    base = "".join(f"  {name}: {_number(value)}\n" for name, value in tunings.base.items())
    return (
        "".join(f"# {line}\n" for line in remark.splitlines())
        + f"uncertainty: {_number(tunings.uncertainty)}\nengines: [{', '.join(sorted(tunings.engines))}]\n"
        + f"kinds:\n{kinds}base:\n{base}effects:\n{effects}"
    )


def _line(effect: Effect) -> str:
    tags = ", ".join(sorted(effect.tags))
    factors = ", ".join(f"{name}: {_number(value)}" for name, value in effect.factors.items())
    return f"{{tags: [{tags}], factors: {{{factors}}}}}"


def _number(value: float) -> str:
    """Four digits. YAML 1.1 takes an exponent for a number only where there is a point."""
    text = f"{value:.4g}"
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def _check(figures: Mapping[str, float], field: str, *, also: frozenset[str]) -> None:
    for name, value in figures.items():
        if name not in _KNOWN | also:
            raise BadInput(field=f"tuning.{field}.{name}", value=name, problem="unknown figure", fix="remove it")
        if not math.isfinite(value) or value <= 0:
            raise BadInput(field=f"tuning.{field}.{name}", value=value, problem="not above 0", fix="write a factor")
