"""What each rank of a parallel layout holds of a stage's weights.

In: a stage's needs, how its weights are stored, a `Layout`. Out: `Shares`, or a Refusal that names the tensor that
can't be divided and the counts that would work. Invariant: the bytes of all ranks are the whole plus what is held
more than once plus padding.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accord.estimate.cut import Cut, Misfit, cut
from accord.estimate.weights import format_of, matrix_bytes, scale_bytes, value_bytes
from accord.terms.architecture import Needs, Stored
from accord.terms.layout import Layout
from accord.terms.refusal import Refusal
from accord.terms.tensors import Format, Part, Split, Tensor
from accord.terms.work import MatMul

RANKS_TRIED = 256  # counts that a refusal looks through for those that would work


@dataclass(frozen=True, slots=True, kw_only=True)
class RankShare:
    """What each of `count` like ranks of one pipeline rank holds."""

    pipeline: int
    count: int
    parameters: int
    held_bytes: int
    parts: tuple[tuple[Part, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """All ranks. `duplicate_bytes` are held more than once, `padding_bytes` hold nothing."""

    ranks: tuple[RankShare, ...]
    whole_bytes: int
    duplicate_bytes: int
    padding_bytes: int
    whole_parameters: int
    duplicate_parameters: int
    padding_parameters: int

    @property
    def largest_bytes(self) -> int:
        """Bytes on the fullest rank."""
        return max(rank.held_bytes for rank in self.ranks)


def shares(needs: Needs, stored: Stored, layout: Layout) -> Shares | Refusal:
    """Each rank's share. Vocabularies are padded as vLLM does, to a multiple of 64 that the ranks divide.

    What stands outside the layers is on the first pipeline rank, save for the head and norms, which are on the last;
    a tied head needs the embedding there, too.
    """
    refusal = _check_pipeline(needs, layout) or _check_experts(needs, layout)
    if refusal is not None:
        return refusal
    pieces: list[_Piece] = []
    for tensor in needs.tensors:
        for form, places in _places(tensor, needs, stored, layout).items():
            made = _cut(tensor, form, layout)
            if isinstance(made, Misfit):
                return _refusal(needs, stored, layout, made)
            pieces.append(_Piece(tensor=tensor, form=form, cut=made, places=places))
    return _sum(needs, pieces, layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """One tensor in one format. `places`: (pipeline rank, how many layers of it are there, first home or a copy)."""

    tensor: Tensor
    form: Format | None
    cut: Cut
    places: tuple[tuple[int, int, bool], ...]

    def part_bytes(self) -> int:
        return matrix_bytes(self.tensor, self.form, rows=self.cut.rows, columns=self.cut.columns)

    def part_values(self) -> int:
        return 0 if self.tensor.buffer else self.cut.rows * self.cut.columns


def _cut(tensor: Tensor, form: Format | None, layout: Layout) -> Cut | Misfit:
    if tensor.split is Split.EXPERTS:
        return cut(tensor, tensor.inner, layout.group // layout.experts, form)
    return cut(tensor, tensor.split, layout.tensor, form)


def _holders(tensor: Tensor, layout: Layout) -> int:
    """How many ranks of a group hold a part of one copy."""
    return layout.group // layout.experts if tensor.split is Split.EXPERTS else layout.group


def _copies(tensor: Tensor, layout: Layout, rank: int) -> int:
    """How many copies the `rank`th expert rank has; the first ones have one more where they don't come out even."""
    if tensor.split is not Split.EXPERTS:
        return tensor.copies
    each, rest = divmod(tensor.copies, layout.experts)
    return each + (rank < rest)


def _places(
    tensor: Tensor, needs: Needs, stored: Stored, layout: Layout
) -> dict[Format | None, tuple[tuple[int, int, bool], ...]]:
    if not tensor.layers:
        last = max(0, len(layout.pipeline) - 1)
        home = last if tensor.part in (Part.HEAD, Part.NORM) else 0
        homes = [(home, 1, True)]
        if last and _tied(tensor, needs):
            homes.append((last, 1, False))
        return {format_of(tensor, stored, None): tuple(homes)}
    counts: Counter[tuple[Format | None, int]] = Counter()
    rank_of = _rank_of_layer(needs, layout)
    for layer in tensor.layers:
        counts[format_of(tensor, stored, layer), rank_of[layer]] += 1
    forms = {form for form, _ in counts}
    return {form: tuple((rank, n, True) for (f, rank), n in counts.items() if f == form) for form in forms}


def _tied(tensor: Tensor, needs: Needs) -> bool:
    if tensor.part is not Part.EMBEDDING:
        return False
    return any(isinstance(item, MatMul) and item.weight is tensor for item in needs.operators)


def _rank_of_layer(needs: Needs, layout: Layout) -> dict[int, int]:
    layers = _layers(needs)
    ranks = [rank for rank, count in enumerate(layout.pipeline or (len(layers),)) for _ in range(count)]
    return dict(zip(layers, ranks, strict=True))


def _layers(needs: Needs) -> list[int]:
    return sorted({layer for tensor in needs.tensors for layer in tensor.layers})


def _sum(needs: Needs, pieces: list[_Piece], layout: Layout) -> Shares:
    whole = duplicate = padding = 0
    duplicate_values = padding_values = 0
    for piece in pieces:
        for _, layers, first in piece.places:
            count = layers * piece.tensor.copies
            lone, twice, filled = _account(piece, _holders(piece.tensor, layout))
            whole += count * lone if first else 0
            duplicate += count * (twice if first else lone + twice)
            padding += count * filled
            values, again, blank = _account_values(piece, _holders(piece.tensor, layout))
            duplicate_values += count * (again if first else values + again)
            padding_values += count * blank
    return Shares(
        ranks=tuple(_ranks(pieces, layout)),
        whole_bytes=whole,
        duplicate_bytes=duplicate,
        padding_bytes=padding,
        whole_parameters=needs.parameters,
        duplicate_parameters=duplicate_values,
        padding_parameters=padding_values,
    )


def _account(piece: _Piece, holders: int) -> tuple[int, int, int]:
    """Bytes of one copy: the whole, what is held more than once, padding.

    Scales that several parts need (one for each output row, say) are held more than once, too.
    """
    tensor, form, made = piece.tensor, piece.form, piece.cut
    values = value_bytes(tensor, form, tensor.rows * tensor.columns)
    scales = scale_bytes(form, rows=tensor.rows, columns=tensor.columns)
    full_scales = scale_bytes(form, rows=made.full_rows, columns=made.full_columns)
    part_scales = scale_bytes(form, rows=made.rows, columns=made.columns)
    padding = made.parts * value_bytes(tensor, form, made.rows * made.columns) - values + full_scales - scales
    duplicate = (holders - made.parts) * piece.part_bytes() + made.parts * part_scales - full_scales
    return values + scales, duplicate, padding


def _account_values(piece: _Piece, holders: int) -> tuple[int, int, int]:
    if piece.tensor.buffer:
        return 0, 0, 0
    values = piece.tensor.rows * piece.tensor.columns
    part = piece.part_values()
    return values, (holders - piece.cut.parts) * part, piece.cut.parts * part - values


def _ranks(pieces: list[_Piece], layout: Layout) -> Iterator[RankShare]:
    uneven = {piece.tensor.copies % layout.experts for piece in pieces if piece.tensor.split is Split.EXPERTS}
    bounds = sorted({0, layout.experts} | uneven)
    for pipeline in range(max(1, len(layout.pipeline))):
        for low, high in itertools.pairwise(bounds):
            yield _rank(pieces, layout, pipeline, range(low, high))


def _rank(pieces: Iterable[_Piece], layout: Layout, pipeline: int, experts: range) -> RankShare:
    parts: Counter[Part] = Counter()
    parameters = 0
    for piece in pieces:
        copies = _copies(piece.tensor, layout, experts.start)
        count = copies * sum(layers for rank, layers, _ in piece.places if rank == pipeline)
        parts[piece.tensor.part] += count * piece.part_bytes()
        parameters += count * piece.part_values()
    return RankShare(
        pipeline=pipeline,
        count=len(experts) * layout.group // layout.experts,
        parameters=parameters,
        held_bytes=parts.total(),
        parts=tuple((part, parts[part]) for part in Part if parts[part]),
    )


def _check_pipeline(needs: Needs, layout: Layout) -> Refusal | None:
    layers = len(_layers(needs))
    if not layout.pipeline or sum(layout.pipeline) == layers:
        return None
    return Refusal(
        field="layout.pipeline",
        value=" + ".join(map(str, layout.pipeline)),
        limit=f"{layers} layers",
        causes=(f"stage {needs.stage} has {layers} layers; these ranks take {sum(layout.pipeline)}",),
        fix=(f"give {layers} layers to at most {max(1, layers)} pipeline ranks",),
    )


def _check_experts(needs: Needs, layout: Layout) -> Refusal | None:
    least = min((item.copies for item in needs.tensors if item.split is Split.EXPERTS), default=None)
    if layout.experts == 1 or (least is not None and layout.experts <= least):
        return None
    causes = (f"stage {needs.stage} has {least or 'no'} experts a layer",)
    fix = "use 1 expert-parallel rank" if least is None else f"use at most {least} expert-parallel ranks"
    return Refusal(field="layout.experts", value=str(layout.experts), limit=str(least or 1), causes=causes, fix=(fix,))


def _refusal(needs: Needs, stored: Stored, layout: Layout, misfit: Misfit) -> Refusal:
    good = [count for count in range(1, RANKS_TRIED + 1) if _divides(needs, stored, layout, count)]
    return Refusal(
        field="layout.tensor",
        value=str(layout.tensor),
        limit=misfit.limit,
        causes=(f"stage {needs.stage}: {misfit.words}",),
        fix=(f"use {', '.join(map(str, good))} tensor-parallel ranks",),
    )


def _divides(needs: Needs, stored: Stored, layout: Layout, tensor: int) -> bool:
    if max(tensor, layout.experts) % min(tensor, layout.experts):
        return False
    tried = Layout(tensor=tensor, experts=layout.experts)
    forms = ((item, {format_of(item, stored, layer) for layer in item.layers or (None,)}) for item in needs.tensors)
    return not any(isinstance(_cut(item, form, tried), Misfit) for item, found in forms for form in found)
