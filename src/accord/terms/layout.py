"""How one stage's weights are dealt out over ranks.

In: nothing. Out: `Layout`. Invariant: one of `tensor` and `experts` divides the other, so that every rank of a
pipeline rank's group has a place in both.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`tensor`-parallel ranks, `experts`-parallel ranks (1: each expert is divided inside), layers by pipeline rank.

    `pipeline` says how many layers each pipeline rank has; empty: one rank has them all. With more expert ranks than
    tensor ranks, attention is data-parallel (each group of `tensor` ranks holds all of it); with fewer, the ranks
    that share experts divide them inside.
    """

    tensor: int = 1
    experts: int = 1
    pipeline: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        most, least = max(self.tensor, self.experts), min(self.tensor, self.experts)
        if least < 1 or most % least or any(layers < 1 for layers in self.pipeline):
            raise ValueError(f"{self}: counts are 1 or more, and one of tensor and experts divides the other")

    @property
    def group(self) -> int:
        """Ranks of one pipeline rank."""
        return max(self.tensor, self.experts)

    @property
    def ranks(self) -> int:
        """All ranks."""
        return self.group * max(1, len(self.pipeline))


def even_pipeline(layers: int, ranks: int) -> tuple[int, ...]:
    """Layers by pipeline rank, as even as can be; the ends, which hold embeddings and head, get no more than others."""
    each, rest = divmod(layers, ranks)
    middle = sorted(range(ranks), key=lambda rank: (rank == ranks - 1, rank == 0, -rank))
    more = set(middle[:rest])
    return tuple(each + (rank in more) for rank in range(ranks))
