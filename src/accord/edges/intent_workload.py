"""The `workload` of an intent document -> `Workload`.

In: its tree. Out: `Workload`, with all figures in base units. Invariant: every field is understood or refused; what
isn't written is None, which means the model's usual.
"""

import re
from collections.abc import Callable

from accord.edges.fields import Fields, at, leaf_number, leaf_text, leaf_unit, shown
from accord.edges.yaml_tree import Leaf, Tree
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.intent import PictureSize, Spread, Workload

_INPUTS = ("text", "audio", "image", "video")
_OUTPUTS = ("text", "audio", "image", "video", "actions")
_PICTURE = re.compile(r"([1-9][0-9]{0,4})\s*x\s*([1-9][0-9]{0,4})", re.ASCII)


def workload_of(tree: Tree, field: str) -> Workload:
    """How much is asked, and what. BadInput with field, value, line and fix."""
    fields = Fields(tree, field=field)
    workload = Workload(
        rate_rps=fields.read("rate_rps", _rate, None),
        trace=fields.read("trace", leaf_text, None),
        input_tokens=fields.read("input_tokens", _counts, None),
        output_tokens=fields.read("output_tokens", _counts, None),
        inputs=fields.read("inputs", _shares_of(_INPUTS), ()),
        outputs=fields.read("outputs", _shares_of(_OUTPUTS), ()),
        input_audio_s=fields.read("input_audio", _durations, None),
        input_image=fields.read("input_image", picture_size, None),
        input_video_s=fields.read("input_video", _durations, None),
        output_image=fields.read("output_image", picture_size, None),
    )
    fields.end()
    if workload.rate_rps is not None and workload.trace is not None:
        fix = "keep one of workload.rate_rps and workload.trace"
        raise BadInput(field=field, value="rate_rps and trace", problem="two rates", fix=fix)
    return workload


def picture_size(tree: Tree, field: str) -> PictureSize | None:
    """ "448x448": width and height in pixels."""
    text = tree.value if isinstance(tree, Leaf) else None
    found = _PICTURE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        fix = "write width x height in pixels, such as 448x448"
        raise BadInput(field=field, value=shown(tree), problem=f"not the size of a picture{at(tree)}", fix=fix)
    return PictureSize(width=int(found[1]), height=int(found[2]))


def _rate(tree: Tree, field: str) -> float | None:
    rate = leaf_number(tree, field)
    if rate == 0:
        fix = "write a rate above 0, or leave it out if you don't know it"
        raise BadInput(field=field, value=rate, problem=f"no requests{at(tree)}", fix=fix)
    return rate


def _counts(tree: Tree, field: str) -> Spread | None:
    spread = _spread(tree, field, leaf_number)
    if spread.p50 < 1:
        fix = "write 1 <= p50 <= p99"
        raise BadInput(field=f"{field}.p50", value=spread.p50, problem=f"less than one{at(tree)}", fix=fix)
    return spread


def _durations(tree: Tree, field: str) -> Spread | None:
    spread = _spread(tree, field, lambda below, path: leaf_unit(units.parse_duration_s, below, path))
    if spread.p50 == 0:
        fix = "write how long it is, or set its share in workload.inputs to 0"
        raise BadInput(field=f"{field}.p50", value="0s", problem=f"lasts no time{at(tree)}", fix=fix)
    return spread


def _spread(tree: Tree, field: str, parse: Callable[[Tree, str], float]) -> Spread:
    """`{p50: 900, p99: 6000}`, or one figure where all are alike."""
    if isinstance(tree, Leaf) and tree.value is not None:
        figure = parse(tree, field)
        return Spread(p50=figure, p99=figure)
    fields = Fields(tree, field=field)
    spread = Spread(p50=fields.must("p50", parse), p99=fields.must("p99", parse))
    fields.end()
    if spread.p99 < spread.p50:
        values = f"p50 {spread.p50:g}, p99 {spread.p99:g}"
        raise BadInput(field=field, value=values, problem=f"not a spread{at(tree)}", fix="write p50 <= p99")
    return spread


def _shares_of(kinds: tuple[str, ...]) -> Callable[[Tree, str], tuple[tuple[str, float], ...]]:
    def parse(tree: Tree, field: str) -> tuple[tuple[str, float], ...]:
        fields = Fields(tree, field=field)
        read = ((kind, fields.read(kind, _share, None)) for kind in kinds)
        shares = tuple((kind, share) for kind, share in read if share is not None)
        fields.end()
        if shares and not any(share for _, share in shares):
            fix = "give one of them a share above 0, or leave the field out"
            raise BadInput(field=field, value="0 of each", problem=f"nothing is asked{at(tree)}", fix=fix)
        return shares

    return parse


def _share(tree: Tree, field: str) -> float | None:
    return leaf_unit(units.parse_share, tree, field)
