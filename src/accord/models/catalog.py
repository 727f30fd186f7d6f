"""The models that are known by name: a written-out table.

In: a model's name, as the intent has it. Out: `Model`. BadInput for a name that isn't there.
"""

import difflib
from collections.abc import Callable, Mapping

from accord.models import embedded
from accord.terms.errors import BadInput
from accord.terms.speed import Model


def find(name: str) -> Model:
    """The model of this name; BadInput with the nearest known name otherwise."""
    make = MODELS.get(name)
    if make is None:
        near = difflib.get_close_matches(name, MODELS, n=1, cutoff=0.5)
        fix = f"did you mean {near[0]}?" if near else f"use one of {', '.join(MODELS)}"
        raise BadInput(field="model", value=name, problem="no such model", fix=fix)
    return make()


MODELS: Mapping[str, Callable[[], Model]] = {
    embedded.NAME: embedded.model,
}
