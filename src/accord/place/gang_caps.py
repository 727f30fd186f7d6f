"""How many replicas each node could hold at most, over all nodes at once.

In: a `Board`, a `Wish`. Out: an upper bound for each node, and where nodes stand as numbers. Invariant: a node that
can hold n replicas has a bound of n or more, so that what the bounds rule out is impossible.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.place.board import WHOLE, Board, Ints
from accord.place.gang_wish import NEAR, Wish
from accord.terms.gang import Scope

_REMEMBERED_MAX = 32
_MANY = np.int64(1) << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a set of parts takes together at the least, and the kinds of devices that it may take."""

    kinds: NDArray[np.bool_]
    share: int
    whole: int
    cpu: int
    host: int
    nvme: int


class Caps:
    """Bounds that are remembered, and computed anew only for nodes that have changed."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._known: dict[tuple[object, ...], tuple[Ints, Ints]] = {}

    def of(self, wish: Wish, fits: NDArray[np.bool_]) -> Ints:
        """For each node, replicas of the wish that it could hold. `fits`: where one can stand but for its scopes."""
        if wish.replicas == 1 and not wish.scopes:
            return fits.astype(np.int64)
        key = (
            wish.cuts, wish.replicas, wish.cpu, wish.host, wish.nic, wish.nvme, wish.wants_nic, wish.scopes, wish.exact,
        )  # fmt: skip
        versions = self._board.versions
        cap, seen = self._known.pop(key, None) or (np.zeros(len(versions), np.int64), np.full(len(versions), -1))
        stale = np.flatnonzero(seen != versions)
        if len(stale):
            cap[stale] = caps(self._board, wish, stale)
            seen[stale] = versions[stale]
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.pop(next(iter(self._known)))
        self._known[key] = (cap, seen)
        return np.where(fits, cap, 0)


def caps(board: Board, wish: Wish, rows: Ints) -> Ints:
    """For each of these rows, replicas of the wish that it could hold; each resource is looked at alone."""
    cap = np.full(len(rows), wish.replicas, np.int64)
    for want, left in ((wish.nvme, board.nvme), (wish.cpu, board.cpu), (wish.host, board.host)):
        if want and left.ndim == 2:
            total = (left[rows] // want).sum(axis=1) if wish.exact else left[rows].sum(axis=1) // want
            np.minimum(cap, total, out=cap)
        elif want:
            np.minimum(cap, left[rows] // want, out=cap)
    if wish.nic:
        np.minimum(cap, (np.maximum(board.nic[rows], 0) // wish.nic).sum(axis=1), out=cap)
    elif wish.wants_nic:
        cap[~(board.nic[rows] >= 0).any(axis=1)] = 0
    if wish.cards:
        np.minimum(cap, _by_devices(board, wish, rows), out=cap)
    return cap


def _by_devices(board: Board, wish: Wish, rows: Ints) -> Ints:
    """Replicas that the devices of these rows could hold; those of one replica within the nearest of its scopes."""
    cuts, kind = wish.cuts, board.kind[rows]
    if not any(cuts):
        return np.zeros(len(rows), np.int64)
    per = np.where(np.array([cut is not None for cut in cuts] + [False])[kind], np.int64(wish.replicas), 0)
    _bound(per, kind, [cut.share if cut else 0 for cut in cuts], board.share[rows])
    _bound(per, kind, [cut.memory if cut else 0 for cut in cuts], board.memory[rows])
    for layer in range(len(board.codec_names)):
        _bound(per, kind, [cut.codecs[layer] if cut else 0 for cut in cuts], board.codecs[layer, rows])
    for layer in range(len(board.template_names)):
        cuts_one = [int(cut is not None and cut.template == layer) for cut in cuts]
        _bound(per, kind, cuts_one, board.templates[layer, rows])
    many = {cut.devices for cut in cuts if cut}
    if many == {1}:
        total: Ints = per.sum(axis=1)
        return total
    parts = per / np.array([cut.devices if cut else 1 for cut in cuts] + [1])[kind]
    if wish.scopes and len(many) == 1:
        ids = device_places(board, wish.scopes[0])[rows]
        wide = int(ids.max(initial=0)) + 1
        flat = ids + wide * np.arange(len(ids))[:, None]
        blocks = np.bincount(flat.ravel(), weights=parts.ravel(), minlength=wide * len(ids)).reshape(len(ids), wide)
        total = np.floor(blocks + 1e-6).astype(np.int64).sum(axis=1)
    else:
        total = np.floor(parts.sum(axis=1) + 1e-6).astype(np.int64)
    return total


def _bound(per: Ints, kind: Ints, wants: list[int], left: Ints) -> None:
    """Lowers `per` to how often what is wanted, by kind, goes into what is left."""
    if any(wants):
        want = np.array([*wants, 0], np.int64)[kind]
        np.minimum(per, np.where(want > 0, left // np.maximum(want, 1), _MANY), out=per)


def device_places(board: Board, scope: Scope) -> Ints:
    """`[node, device]`: ids within the node of where devices stand; what isn't known stands alone."""
    known = board.places.get(scope)
    if known is None:
        known = np.zeros(board.kind.shape, np.int64)
        wide = board.kind.shape[1]
        for row, node in enumerate(board.nodes):
            ids = board.layouts.of(row).ids[scope]
            known[row, : len(node.devices)] = [place if place >= 0 else wide - place for place in ids]
        board.places[scope] = known
    return known


def node_places(board: Board, scope: Scope) -> Ints:
    """`[node]`: ids of the leaf or spine that nodes stand in; nodes where it isn't known have negative ones, alone."""
    scope = Scope.HOST if scope in NEAR else scope
    known = board.places.get(scope)
    if known is None:
        numbers: dict[str, int] = {}
        names = [
            None if scope is Scope.HOST else node.leaf if scope is Scope.LEAF else node.spine for node in board.nodes
        ]
        ids = [-1 - row if name is None else numbers.setdefault(name, len(numbers)) for row, name in enumerate(names)]
        known = np.arange(len(board.nodes)) if scope is Scope.HOST else np.array(ids, np.int64)
        board.places[scope] = known
    return known


def dense(places: Ints) -> tuple[Ints, int]:
    """The same places numbered from 0, those that stand alone after the others; and how many there are."""
    top = int(places.max(initial=-1)) + 1
    ids = np.where(places >= 0, places, top - 1 - places)
    return ids, int(ids.max(initial=-1)) + 1


def demand_of(board: Board, wishes: tuple[Wish, ...]) -> Demand:
    """What these parts take together at the least."""
    kinds = np.zeros(len(board.kinds) + 1, bool)
    share = whole = 0
    for wish in wishes:
        cuts = [cut for cut in wish.cuts if cut]
        for number, cut in enumerate(wish.cuts):
            kinds[number] |= cut is not None
        share += wish.replicas * min((cut.devices * cut.share for cut in cuts), default=0)
        if cuts and all(cut.whole for cut in cuts):
            whole += wish.replicas * min(cut.devices for cut in cuts)
    return Demand(
        kinds=kinds, share=share, whole=whole,
        cpu=sum(wish.replicas * wish.cpu for wish in wishes),
        host=sum(wish.replicas * wish.host for wish in wishes),
        nvme=sum(wish.replicas * wish.nvme for wish in wishes),
    )  # fmt: skip


def enough(board: Board, demand: Demand, ids: Ints, count: int) -> NDArray[np.bool_]:
    """For each of `count` places, whether its nodes together have what is demanded."""
    good = np.ones(count, bool)
    rows = [(demand.cpu, board.cpu_sum), (demand.host, board.host_sum), (demand.nvme, board.nvme)]
    if demand.share:
        free = np.where(demand.kinds[board.kind], np.maximum(board.share, 0), 0)
        rows.append((demand.share, free.sum(axis=1)))
        if demand.whole:
            rows.append((demand.whole, (free == WHOLE).sum(axis=1)))
    for want, left in rows:
        if want:
            good &= np.bincount(ids, weights=left, minlength=count) >= want * (1 - 1e-9)
    return good
