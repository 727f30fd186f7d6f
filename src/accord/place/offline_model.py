"""A whole plan as a constraint program for OR-Tools CP-SAT.

In: a `Board`, `Scores`, a `Gang` (several joined), an `Aim`. Out: `Solved`: spots by row, with a proven bound.
Invariant: the program means what the search means; what it answers is judged again before it is used.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from accord.place.board import WHOLE, Board
from accord.place.gang_caps import node_places
from accord.place.gang_node import Spot
from accord.place.gang_wish import NEAR, Cut, Wish, extra_bytes, wishes_of
from accord.place.online import Scores
from accord.terms.gang import Apart, Bandwidth, Gang, Scope, Seat, Together

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    _Places = dict[tuple[int, int], list[list[cp_model.IntVar]]]


class Aim(StrEnum):
    """What a plan spares: nodes that it touches, devices that it touches, or worth that gaps lose."""

    NODES = "nodes"
    DEVICES = "devices"
    LOSS = "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """What the solver knows: spots by row (None: nothing found), in thousandths their cost and its proven bound."""

    spots: tuple[tuple[int, tuple[Spot, ...]], ...] | None
    cost: float
    bound: float
    impossible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stand:
    """The variables of one replica on one node."""

    number: int  # of the replica
    wish: Wish
    here: "cp_model.IntVar"
    devices: dict[int, "cp_model.IntVar"]
    cuts: dict[int, Cut]
    domains: dict[int, "cp_model.IntVar"]
    nics: dict[int, "cp_model.IntVar"]


class Program:
    """The constraint program of one gang on one board."""

    def __init__(self, board: Board, scores: Scores, gang: Gang, *, aim: Aim) -> None:
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self.board, self.gang, self.worth = board, gang, scores.worth
        required = tuple(item for item in gang.relations if isinstance(item, Bandwidth) or item.required)
        self.wishes, _ = wishes_of(board, gang, required)
        self.flows = tuple(item for item in gang.relations if isinstance(item, Bandwidth))
        self.by_row: dict[int, list[_Stand]] = {}
        self.zero = cp_model.LinearExpr.term(self._bool(), 0)
        self.replicas: list[list[tuple[int, _Stand]]] = []
        for wish, part in zip(self.wishes, gang.parts, strict=True):
            rows = np.flatnonzero(np.isfinite(scores.of(part)[1])).tolist()
            first = len(self.replicas)
            for number in range(first, first + wish.replicas):
                self.replicas.append([(row, self._stand(wish, number, row)) for row in rows])
                self.model.add(sum(stand.here for _, stand in self.replicas[-1]) == 1)
                if number > first:  # replicas are interchangeable: they stand in the order of nodes
                    before, after = (
                        sum(row * stand.here for row, stand in its) for its in self.replicas[number - 1 : number + 1]
                    )
                    self.model.add(before <= after)
        for row in sorted(self.by_row):
            self._devices(row)
            self._hosts(row)
            self._nics(row)
        prices = [self._relate(item) for item in gang.relations if not isinstance(item, Bandwidth)]
        self.model.minimize(self._sum([*prices, *self._aim(aim)]))

    def solve(self, *, hint: tuple[Seat, ...] | None, seconds_max: float, seed: int) -> Solved:
        """The best plan within about so many seconds, counted in the solver's steps so that it repeats exactly."""
        from ortools.sat.python import cp_model

        if hint is not None:
            self._hint(hint)
        solver = cp_model.CpSolver()
        solver.parameters.max_deterministic_time = seconds_max
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            return Solved(spots=None, cost=math.inf, bound=math.inf, impossible=True)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Solved(spots=None, cost=math.inf, bound=max(0.0, solver.best_objective_bound))
        return Solved(spots=self._spots(solver), cost=solver.objective_value, bound=solver.best_objective_bound)

    def _sum(self, its: "Iterable[cp_model.LinearExpr | int]") -> "cp_model.LinearExpr":
        total: cp_model.LinearExpr = self.zero
        for item in its:
            total = total + item
        return total

    def _bool(self) -> "cp_model.IntVar":
        return self.model.new_bool_var("")

    def _stand(self, wish: Wish, number: int, row: int) -> _Stand:
        """One replica on one node: devices of one kind, its NIC and domain, all within its scopes."""
        here, layout = self._bool(), self.board.layouts.of(row)
        stand = _Stand(number=number, wish=wish, here=here, devices={}, cuts={}, domains={}, nics={})
        kinds = []
        for kind, cut in enumerate(wish.cuts):
            its = [device for device, other in enumerate(layout.kinds) if other == kind]
            if cut is not None and len(its) >= cut.devices:
                kinds.append(self._bool())
                stand.devices.update((device, self._bool()) for device in its)
                stand.cuts.update((device, cut) for device in its)
                self.model.add(sum(stand.devices[device] for device in its) == cut.devices * kinds[-1])
                for device in its if cut.pairs else ():
                    twin = [other for other in its if layout.pair[other] == layout.pair[device] and other != device]
                    self.model.add(stand.devices[device] == (stand.devices[twin[0]] if twin else 0))
        if wish.cards:
            self.model.add(sum(kinds) == here)
        if wish.exact:
            stand.domains.update((domain, self._bool()) for domain in range(len(self.board.nodes[row].numa)))
            self.model.add(sum(stand.domains.values()) == here)
        if wish.wants_nic or any(wish.name in (flow.source, flow.target) for flow in self.flows):
            stand.nics.update((nic, self._bool()) for nic in range(len(self.board.nodes[row].nics)))
            total = sum(stand.nics.values())
            self.model.add(total == here if wish.wants_nic else total <= here)
        for scope in wish.scopes:
            self._block(stand, row, scope)
        self.by_row.setdefault(row, []).append(stand)
        return stand

    def _block(self, stand: _Stand, row: int, scope: Scope) -> None:
        """All devices of the replica, and its NIC where that is bound, in one block of the scope."""
        layout = self.board.layouts.of(row)
        if scope is Scope.NUMA:
            blocks = stand.domains
        else:
            blocks = {key: self._bool() for key in sorted({layout.ids[scope][device] for device in stand.devices})}
            self.model.add(sum(blocks.values()) == stand.here)
        for device, used in stand.devices.items():
            self.model.add(used <= blocks.get(layout.ids[scope][device], 0))
        if scope is stand.wish.nic_scope:
            for nic, used in stand.nics.items():
                self.model.add(used <= blocks.get(layout.nic_ids[scope][nic], 0))

    def _devices(self, row: int) -> None:
        board, add = self.board, self.model.add
        for device in range(len(board.nodes[row].devices)):
            its = [(stand.devices[device], stand.cuts[device]) for stand in self.by_row[row] if device in stand.devices]
            if not its:
                continue
            add(sum(cut.share * used for used, cut in its) <= int(board.share[row, device]))
            add(sum(cut.memory * used for used, cut in its) <= int(board.memory[row, device]))
            for layer in range(len(board.codec_names)):
                add(sum(cut.codecs[layer] * used for used, cut in its) <= int(board.codecs[layer, row, device]))
            for layer in range(len(board.template_names)):
                cut_so = sum(used for used, cut in its if cut.template == layer)
                add(cut_so <= int(board.templates[layer, row, device]))

    def _hosts(self, row: int) -> None:
        board, add, its = self.board, self.model.add, self.by_row[row]
        add(sum(stand.wish.cpu * stand.here for stand in its) <= int(board.cpu_sum[row]))
        add(sum(stand.wish.host * stand.here for stand in its) <= int(board.host_sum[row]))
        add(sum(stand.wish.nvme * stand.here for stand in its) <= int(board.nvme[row]))
        for domain in range(len(board.nodes[row].numa)):
            exact = [(stand.wish, stand.domains[domain]) for stand in its if domain in stand.domains]
            add(sum(wish.cpu * used for wish, used in exact) <= int(board.cpu[row, domain]))
            add(sum(wish.host * used for wish, used in exact) <= int(board.host[row, domain]))

    def _nics(self, row: int) -> None:
        its = self.by_row[row]
        for nic in range(len(self.board.nodes[row].nics)):
            loads = [stand.wish.nic * stand.nics[nic] for stand in its if nic in stand.nics]
            loads += [load for stand in its for load in self._flow_loads(stand, row, nic)]
            self.model.add(sum(loads) <= int(self.board.nic[row, nic]))
        for stand in its:
            for end, _ in self._ends(stand.wish):
                # Without a NIC, everything it speaks to stands beside it.
                beside, count = self._beside(row, end)
                self.model.add(count - beside <= count * (1 - stand.here + sum(stand.nics.values())))

    def _flow_loads(self, stand: _Stand, row: int, nic: int) -> "Iterator[cp_model.IntVar]":
        """What the replica sends and receives beyond its node, if it does so on this NIC."""
        for end, rate in self._ends(stand.wish):
            beside, count = self._beside(row, end)
            load = self.model.new_int_var(0, rate * count, "")
            self.model.add(load >= rate * (count - beside) - rate * count * (1 - stand.nics[nic]))
            yield load

    def _ends(self, wish: Wish) -> Iterator[tuple[str, int]]:
        """The other ends of its flows, and the bytes/s to or from each of their replicas, rounded up."""
        replicas = {its.name: its.replicas for its in self.wishes}
        for flow in self.flows:
            rate = math.ceil(flow.bytes_per_s / replicas[flow.target])
            if wish.name == flow.source:
                yield flow.target, rate
            if wish.name == flow.target:
                yield flow.source, rate

    def _beside(self, row: int, name: str) -> "tuple[cp_model.LinearExpr, int]":
        its = [stand.here for stand in self.by_row[row] if stand.wish.name == name]
        return self._sum(its), next(wish.replicas for wish in self.wishes if wish.name == name)

    def _relate(self, relation: Together | Apart) -> "cp_model.LinearExpr":
        """Holds a relation; a preference may be given up, for a price in thousandths of a device."""
        given_up = 0 if relation.required else self._bool()
        its = [(row, stand) for replica in self.replicas for row, stand in replica if stand.wish.name in relation.parts]
        places: _Places = {}  # what of each stand is in each place
        for row, stand in its:
            for key, used in self._where(relation.scope, row, stand).items():
                places.setdefault(key, []).append(used)
        if isinstance(relation, Together):
            chosen = {key: self._bool() for key in sorted(places)}
            self.model.add(sum(chosen.values()) == 1)
            for key, stands in places.items():
                for part in (one for some in stands for one in some):
                    self.model.add(part <= chosen[key] + given_up)
        else:
            self._apart(places, relation.most, len(its) * (0 if relation.required else given_up))
        return self._sum(() if relation.required else (round(WHOLE * relation.weight) * given_up,))

    def _where(self, scope: Scope, row: int, stand: _Stand) -> "dict[tuple[int, int], list[cp_model.IntVar]]":
        """(around, place) -> what of the stand is there. Negative: not known, alone. `around`: 0, or the node."""
        if scope not in NEAR:
            return {(0, int(node_places(self.board, scope)[row])): [stand.here]}
        if not stand.devices:
            return {(row, domain): [used] for domain, used in stand.domains.items()}
        found: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        for device, used in stand.devices.items():
            found.setdefault((row, self.board.layouts.of(row).ids[scope][device]), []).append(used)
        return found

    def _apart(self, places: "_Places", most: int, slack: "cp_model.LinearExpr | int") -> None:
        """At most `most` in each place, those counted in whose place isn't known."""
        for around in sorted({key[0] for key in places}):
            unknown = [used for (its, key), stands in places.items() if its == around and key < 0 for used in stands]
            known = [stands for (its, key), stands in sorted(places.items()) if its == around and key >= 0]
            for stands in known or [[]]:
                self.model.add(sum(self._any(some) for some in (*stands, *unknown)) <= most + slack)

    def _any(self, some: "list[cp_model.IntVar]") -> "cp_model.IntVar":
        if len(some) == 1:
            return some[0]
        either = self._bool()
        for used in some:
            self.model.add(used <= either)
        return either

    def _aim(self, aim: Aim) -> "list[cp_model.LinearExpr | int]":
        costs: list[cp_model.LinearExpr | int] = []
        for row, its in sorted(self.by_row.items()):
            if aim is Aim.NODES:
                costs.append(WHOLE * self._any([stand.here for stand in its]))
                continue
            for device in range(len(self.board.nodes[row].devices)):
                uses = [stand.devices[device] for stand in its if device in stand.devices]
                if uses and aim is Aim.DEVICES:
                    costs.append(WHOLE * self._any(uses))
                elif uses:
                    costs.append(self._lost(row, device))
        return costs

    def _lost(self, row: int, device: int) -> "cp_model.LinearExpr":
        """What the gap on a device loses, by its table of worths."""
        share, memory = int(self.board.share[row, device]), int(self.board.memory[row, device])
        layout = self.board.layouts.of(row)
        full = layout.full_memory[device]
        before = min(share, WHOLE * memory // full if full else WHOLE)
        table = [round(worth) for worth in self.worth.gaps[layout.kinds[device], : before + 1].tolist()]
        gap, worth = self.model.new_int_var(0, before, ""), self.model.new_int_var(0, max(table), "")
        its = [stand for stand in self.by_row[row] if device in stand.devices]
        self.model.add(gap <= share - sum(stand.cuts[device].share * stand.devices[device] for stand in its))
        if full:
            taken = sum(stand.cuts[device].memory * stand.devices[device] for stand in its)
            self.model.add(full * gap <= WHOLE * (memory - taken))
        self.model.add_element(gap, table, worth)
        return self._sum((table[before], -1 * worth))

    def _hint(self, seats: tuple[Seat, ...]) -> None:
        for replica, seat in zip(self.replicas, seats, strict=True):
            for row, stand in replica:
                here = self.board.names[row] == seat.node
                self.model.add_hint(stand.here, here)
                for device, used in stand.devices.items():
                    self.model.add_hint(used, here and device in seat.devices)

    def _spots(self, solver: "cp_model.CpSolver") -> tuple[tuple[int, tuple[Spot, ...]], ...]:
        stands = [
            (row, stand) for replica in self.replicas for row, stand in replica if solver.boolean_value(stand.here)
        ]
        counts: dict[int, list[int]] = {}
        for row, stand in stands:
            counts.setdefault(row, [0] * len(self.wishes))[stand.wish.number] += 1
        spots: dict[int, list[Spot]] = {}
        for row, stand in stands:
            wish = stand.wish
            devices = tuple(device for device, used in stand.devices.items() if solver.boolean_value(used))
            nics = [nic for nic, used in stand.nics.items() if solver.boolean_value(used)]
            wanted = wish.nic + extra_bytes(self.flows, self.wishes, wish.number, tuple(counts[row]))
            domains = [domain for domain, used in stand.domains.items() if solver.boolean_value(used)]
            near = self.board.nodes[row].devices[devices[0]].numa if devices else 0
            spot = Spot(
                wish=wish,
                devices=devices,
                cut=stand.cuts[devices[0]] if devices else None,
                nic=nics[0] if nics and (wish.wants_nic or wanted) else None,
                nic_bytes=wanted,
                domain=domains[0] if domains else near,
            )
            spots.setdefault(row, []).append(spot)
        return tuple((row, tuple(its)) for row, its in sorted(spots.items()))
