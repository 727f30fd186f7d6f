"""Two peers of the packing, reimplemented: fragmentation gradient descent (FGD) and best fit.

In: a `Trace`, its arrivals. Out: the percentage of devices left unallocated. Invariant: filters, scores, whole
percents and ties (the first node by name) are those of the authors' simulator (Weng et al., "Beware of Fragmentation",
USENIX ATC 2023; hkust-adsl/kubernetes-scheduler-simulator); tests/place/test_peers.py holds them to its figures.

FGD takes the node and device where the expected fragments grow least: for each typical pod, the free thousandths of
devices on a node that it can't use, times how often it comes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from _openb import Trace
from accord.terms.gang import Part

WHOLE = 1000
_POPULAR = 0.95  # of all pods are typical
_POPULAR_STEP = 10
_CPU_MOST, _DEVICES_MOST = 128_000, 8_000  # what best fit divides by
Ints = NDArray[np.int64]
_Spec = tuple[int, int, int, int, tuple[str, ...]]  # milli-cores, bytes, devices, thousandths of each, models


def unallocated(trace: Trace, order: Sequence[int], policy: Literal["fgd", "best fit"]) -> float:
    """The percentage of devices that is left when all have come and those that fit nowhere have gone."""
    nodes = _Nodes(trace)
    specs = [_spec(pod) for pod in trace.pods]
    numbers = {spec: number for number, spec in enumerate(dict.fromkeys(specs))}
    scorer = _Fgd(nodes, specs) if policy == "fgd" else _BestFit(nodes)
    score = np.full((len(numbers), len(nodes.cpu)), -1, np.int64)
    device = np.zeros_like(score)
    seen = np.full_like(score, -1)
    for pick in order:
        spec = specs[pick]
        row = numbers[spec]
        stale = np.flatnonzero(seen[row] != nodes.version)
        if len(stale):
            score[row, stale] = -1
            fits = stale[nodes.fits(stale, spec)]
            if len(fits):
                score[row, fits], device[row, fits] = scorer.score(fits, spec)
            seen[row, stale] = nodes.version[stale]
        best = int(score[row].argmax())
        if score[row, best] >= 0:
            nodes.take(best, spec, int(device[row, best]))
    return 100 * float(nodes.left.sum()) / WHOLE / trace.devices


def _spec(pod: Part) -> _Spec:
    need = pod.need
    devices = need.cards or int(need.share > 0)
    milli = WHOLE if need.cards else round(WHOLE * need.share)
    return round(1000 * need.cpus), need.host_memory_bytes, devices, milli, pod.kinds


class _Nodes:
    """What nodes have left, sorted by name. `left` is 0 where there is no device."""

    def __init__(self, trace: Trace) -> None:
        nodes = sorted(trace.fleet.nodes, key=lambda node: node.name)
        self.cpu = np.array([1000 * node.numa[0].cpus for node in nodes])
        self.memory = np.array([node.numa[0].memory_bytes for node in nodes])
        self.left = np.zeros((len(nodes), max(len(node.devices) for node in nodes)), np.int64)
        for row, node in enumerate(nodes):
            self.left[row, : len(node.devices)] = WHOLE
        self.models = [node.devices[0].kind for node in nodes]
        self.version = np.zeros(len(nodes), np.int64)

    def allowed(self, kinds: tuple[str, ...]) -> NDArray[np.bool_]:
        return np.array([not kinds or model in kinds for model in self.models])

    def fits(self, rows: Ints, spec: _Spec) -> NDArray[np.bool_]:
        cpu, memory, devices, milli, kinds = spec
        good: NDArray[np.bool_] = (self.cpu[rows] >= cpu) & (self.memory[rows] >= memory)
        if devices:
            good &= (self.left[rows] >= milli).sum(axis=1) >= devices
            good &= self.allowed(kinds)[rows]
        return good

    def take(self, row: int, spec: _Spec, device: int) -> None:
        cpu, memory, devices, milli, _ = spec
        self.cpu[row] -= cpu
        self.memory[row] -= memory
        if devices:
            chosen = [device] if milli < WHOLE else np.flatnonzero(self.left[row] == WHOLE)[:devices]
            self.left[row, chosen] -= milli
        self.version[row] += 1


class _BestFit:
    """Half of what cores and half of what devices would have left, over the largest node's; the fullest device."""

    def __init__(self, nodes: _Nodes) -> None:
        self.nodes = nodes

    def score(self, rows: Ints, spec: _Spec) -> tuple[Ints, Ints]:
        cpu, _, devices, milli, _ = spec
        left = self.nodes.left[rows]
        rest = (self.nodes.cpu[rows] - cpu) / _CPU_MOST + (left.sum(axis=1) - devices * milli) / _DEVICES_MOST
        device = np.where(left >= milli, left, WHOLE + 1).argmin(axis=1)
        return (100 * (1 - rest / 2)).astype(np.int64), device


class _Fgd:
    """Whole percents of the sigmoid of how many devices' worth of fragments a placement mends."""

    def __init__(self, nodes: _Nodes, specs: Iterable[_Spec]) -> None:
        self.nodes = nodes
        # Pods that take no device can use none: everything is a fragment to them, before and after alike.
        typical = _typical(specs)
        self.idle = sum(share for (_, _, devices, _, _), share in typical if not devices)
        rows = [row for row in typical if row[0][2]]
        self.share = np.array([share for _, share in rows])
        self.cpu, self.devices, milli = (np.array([spec[field] for spec, _ in rows]) for field in (0, 2, 3))
        self.allowed = np.array([nodes.allowed(spec[4]) for spec, _ in rows]).T  # [node, typical pod]
        free = np.arange(WHOLE + 1)[:, None]
        self.serves = (free >= milli).astype(np.int64)  # [free thousandths, typical pod]
        self.wasted = np.where(free < milli, free, 0)

    def score(self, rows: Ints, spec: _Spec) -> tuple[Ints, Ints]:
        cpu, _, devices, milli, _ = spec
        left = self.nodes.left[rows]
        serves, wasted = self.serves[left].sum(axis=1), self.wasted[left].sum(axis=1)
        cores, total = self.nodes.cpu[rows], left.sum(axis=1)
        before = self._fragments(rows, cores=cores, total=total, serves=serves, wasted=wasted)
        if not devices or milli == WHOLE:
            serves = serves - devices * self.serves[WHOLE]
            after = self._fragments(
                rows, cores=cores - cpu, total=total - devices * WHOLE, serves=serves, wasted=wasted
            )
            return _percent(before - after), np.zeros(len(rows), np.int64)
        score = np.full(left.shape, -1)
        # Devices that have equally much left score alike; the first of them is taken.
        fresh = (left >= milli) & ~np.array(
            [(left[:, :n] == left[:, n : n + 1]).any(axis=1) for n in range(left.shape[1])]
        ).T
        at, device = np.nonzero(fresh)
        was = left[at, device]
        serves = serves[at] - self.serves[was] + self.serves[was - milli]
        wasted = wasted[at] - self.wasted[was] + self.wasted[was - milli]
        after = self._fragments(rows[at], cores=cores[at] - cpu, total=total[at] - milli, serves=serves, wasted=wasted)
        score[at, device] = _percent(before[at] - after)
        best = score.argmax(axis=1)
        return score[np.arange(len(rows)), best], best

    def _fragments(self, rows: Ints, *, cores: Ints, total: Ints, serves: Ints, wasted: Ints) -> NDArray[np.float64]:
        good = (serves >= self.devices) & (self.cpu <= cores[:, None]) & self.allowed[rows]
        parts: NDArray[np.float64] = np.where(good, wasted, total[:, None]) @ self.share
        return parts + self.idle * total


def _percent(mended: NDArray[np.float64]) -> Ints:
    return (100 / (1 + np.exp(-mended / WHOLE))).astype(np.int64)


def _typical(specs: Iterable[_Spec]) -> list[tuple[_Spec, float]]:
    """The most frequent pods, ten at a time until they are 95% of all, with their shares. Memory doesn't count."""
    counts = Counter((cpu, 0, devices, milli, kinds) for cpu, _, devices, milli, kinds in specs)
    total = sum(counts.values())
    chosen: list[tuple[_Spec, int]] = []
    while sum(count for _, count in chosen) < _POPULAR * total:
        chosen = counts.most_common(len(chosen) + _POPULAR_STEP)
    total = sum(count for _, count in chosen)
    return [(spec, count / total) for spec, count in chosen]
