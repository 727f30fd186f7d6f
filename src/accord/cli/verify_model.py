"""The calls that a model makes, as points for a sweep.

In: a model card's name or path. Out: `Point`s. Invariant: each stage is asked in its phases, alone and in a batch, so
that decode's single row and prefill's many are both there.
"""

from collections.abc import Iterator

from accord.edges.model_card import find_card
from accord.estimate.quirks import points
from accord.estimate.summary import decodes
from accord.models import catalog
from accord.models.read import read_card
from accord.terms.architecture import Needs
from accord.terms.errors import BadInput
from accord.terms.graph import Stage
from accord.terms.quirk import Point
from accord.terms.work import Load

_DTYPES = ("bf16", "f16", "f32")
_BATCHES = (1, 8)
_PROMPT = 512


def model_points(card: str) -> tuple[Point, ...]:
    """All calls of all stages. BadInput for a model whose operators no card tells."""
    if card in catalog.MODELS:
        fix = "name a model card: a config.json, a folder with one, or a name of `accord model --list` with a card"
        raise BadInput(field="--model", value=card, problem="its stages have no list of operators", fix=fix)
    found = find_card(card)
    architecture = read_card(found.values, name=found.name)
    made = [point for row in architecture.rows() for point in _stage(row[0], row[1])]
    return tuple(dict.fromkeys(made))


def _stage(stage: Stage, needs: Needs) -> Iterator[Point]:
    for batch in _BATCHES:
        loads = [Load(new=_PROMPT, context=needs.example_context, batch=batch)]
        if decodes(stage, needs):
            loads.append(Load(new=1, context=_PROMPT, batch=batch))
        for load in loads:
            for dtype in _DTYPES:
                yield from points(needs.operators, load, dtype=dtype)
