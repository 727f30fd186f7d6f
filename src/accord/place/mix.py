"""What usually comes: the demand that packing prepares for.

In: needs and how often they come. Out: `Mix`: sizes on a device, and the cores and memory that come with them.
Invariant: sizes are whole thousandths of a device, rounded up, the larger of compute and memory.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from accord.place.board import ABSENT, MILLI, WHOLE, Board
from accord.terms.gang import Need

PRIOR = 100  # needs: after some hundreds of arrivals, what came outweighs what was guessed


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One size on a device of one kind: thousandths of a device, and its weight in the mix."""

    milli: int
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What comes with a thousandth of a device, of one resource of the host: its mean and spread.

    A residue of R thousandths will ask for `mean * R`, give or take `deviation * sqrt(R)`.
    """

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The needs that come, with weights that add up to 1."""

    needs: tuple[tuple[Need, float], ...]

    def sizes(self, card_memory_bytes: int) -> tuple[Size, ...]:
        """Sizes on a device with this much memory, largest first; whole cards count as often as they have cards."""
        weights: dict[int, float] = {}
        for need, weight in self.needs:
            milli = size_milli(need, card_memory_bytes)
            if 0 < milli <= WHOLE:
                weights[milli] = weights.get(milli, 0.0) + weight * max(1, need.cards)
        return tuple(Size(milli=milli, weight=weights[milli]) for milli in sorted(weights, reverse=True))

    def cores(self) -> Beside:
        """Thousandths of a core for each thousandth of a device."""
        return self._beside([MILLI * need.cpus for need, _ in self.needs])

    def host_memory(self) -> Beside:
        """Bytes of host memory for each thousandth of a device."""
        return self._beside([need.host_memory_bytes for need, _ in self.needs])

    def _beside(self, amounts: list[float]) -> Beside:
        rows = [
            (weight, size, amount)
            for (need, weight), amount in zip(self.needs, amounts, strict=True)
            if (size := WHOLE * (need.cards or need.share)) > 0
        ]
        total = sum(weight * size for weight, size, _ in rows)
        if not total:
            return Beside(mean=0.0, deviation=0.0)
        mean = sum(weight * amount for weight, _, amount in rows) / total
        variance = sum(weight * (amount - mean * size) ** 2 for weight, size, amount in rows) / total
        return Beside(mean=mean, deviation=math.sqrt(variance))


def mix_of(needs: Iterable[Need], *, prior: Mix | None = None) -> Mix:
    """The mix of what came, each need as often as it came. A `prior` counts for as much as PRIOR of them."""
    counts: dict[Need, float] = {need: PRIOR * weight for need, weight in prior.needs} if prior else {}
    for need in needs:
        counts[need] = counts.get(need, 0.0) + 1
    total = sum(counts.values())
    return Mix(needs=tuple((need, count / total) for need, count in counts.items()))


def mix_unknown(board: Board) -> Mix:
    """What to prepare for before anything has come: eighths of a device, each as often as the others.

    With half of a fair share of the fleet's cores and host memory: what needs no device, and a reserve, take the rest.
    """
    devices = max(1, int((board.kind != ABSENT).sum()))
    domains = [numa for node in board.nodes for numa in node.numa]
    cores = sum(numa.cpus for numa in domains) / devices / 2
    memory = sum(numa.memory_bytes for numa in domains) / devices / 2
    eighths = [
        Need(cards=part // 8, share=part / 8 % 1, cpus=cores * part / 8, host_memory_bytes=round(memory * part / 8))
        for part in range(1, 9)
    ]
    return mix_of(eighths)


def size_milli(need: Need, card_memory_bytes: int) -> int:
    """Thousandths of a device that a need fills: of compute or of memory, whichever is more."""
    if need.cards:
        return WHOLE
    compute = share_milli(need)
    memory = math.ceil(WHOLE * need.memory_bytes / card_memory_bytes) if card_memory_bytes else 0
    return max(compute, memory)


def share_milli(need: Need) -> int:
    """Thousandths of a device's compute that a need takes, rounded up."""
    return WHOLE if need.cards else math.ceil(round(WHOLE * need.share, 6))
