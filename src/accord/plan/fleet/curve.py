"""How a type of replica behaves as it gets busier.

In: a `ReplicaType`, a `StageDemand`, how many replicas share the queue. Out: `Curve`: what one replica can carry, and
at each level of utilisation the moments of the time to its first output, between outputs, and for all of a request.
Invariant: all times grow with utilisation; at no load they are those of a request alone.
"""

from dataclasses import dataclass

import numpy as np

from accord.estimate.cache import request_bytes
from accord.estimate.step import Step, step_times
from accord.plan.fleet.demand import Pace, StageDemand
from accord.plan.fleet.menu import COLUMNS, LEVELS
from accord.plan.fleet.queue import wait
from accord.plan.fleet.replica import ReplicaType
from accord.plan.fleet.size import NOTHING, Array, Moments
from accord.terms.fleet_plan import Role

_BATCHES = 28  # sizes of a batch that are looked at, evenly in their logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """`capacity_rps` of this stage's requests at utilisation 1; moments by level of `menu.LEVELS`.

    `batch` requests are in one replica at once, in the mean, at each level.
    """

    capacity_rps: float
    first: Moments
    pace: Moments
    whole: Moments
    batch: Array

    def table(self) -> Array:
        """[LEVELS, COLUMNS], as a menu has them."""
        columns = (self.first, self.pace, self.whole)
        parts = [part for item in columns for part in (item.mean, item.variance)]
        return np.stack([np.broadcast_to(part, LEVELS.shape) for part in parts], axis=1).reshape(-1, COLUMNS)


def curve_of(replica: ReplicaType, demand: StageDemand, *, servers: int = 1) -> Curve:
    """The curve. `servers` replicas take their requests from one queue (the least busy one gets the next)."""
    match demand.pace, replica.build.role:
        case Pace.WRITES, Role.WHOLE:
            return _whole(replica, demand, servers)
        case Pace.WRITES, Role.PREFILL:
            return _prefill(replica, demand, servers)
        case Pace.WRITES, Role.DECODE:
            return _decode(replica, demand, servers)
        case _:
            return _passes(replica, demand, servers)


def _whole(replica: ReplicaType, demand: StageDemand, servers: int) -> Curve:
    """Continuous batching: each step decodes for all sequences, and reads as much of prompts as that needs."""
    outputs, prompt = max(1.0, demand.outputs.mean), demand.units.mean
    most = max(1.0, min(replica.batch_max, replica.build.chunk_tokens * outputs / max(1.0, prompt)))
    batches, parts = _grid(most), _parts(replica)
    seconds = _step(
        replica,
        decode=batches / parts,
        context=_context(demand),
        prompts=batches / parts / outputs,  # as many begin in each step as end
        new=prompt,
        before=demand.context,
    )
    decoding = _at_levels(batches, seconds, outputs)
    # A chunk's worth of prompts takes a step of its own kind: longer, with everybody's tokens in it.
    reading = _reading(replica, demand, decode=decoding.batch)
    queue = wait(decoding.rate * servers, reading.shared, servers)
    residual = Moments(mean=decoding.pace.mean / 2, variance=decoding.pace.mean**2 / 12)
    first = queue + residual + reading.alone + _slot_wait(decoding, demand, servers, most)
    return _curve(decoding, demand, first=first)


def _prefill(replica: ReplicaType, demand: StageDemand, servers: int) -> Curve:
    reading = _reading(replica, demand, decode=np.zeros(()))
    capacity = 1.0 / float(reading.shared.mean)
    queue = wait(LEVELS * capacity * servers, reading.shared, servers)
    first = queue + reading.alone
    return Curve(capacity_rps=capacity, first=first, pace=NOTHING, whole=first, batch=LEVELS)


def _decode(replica: ReplicaType, demand: StageDemand, servers: int) -> Curve:
    outputs, most = max(1.0, demand.outputs.mean), float(replica.batch_max)
    batches = _grid(most)
    seconds = _step(replica, decode=batches / _parts(replica), context=_context(demand))
    decoding = _at_levels(batches, seconds, outputs)
    residual = Moments(mean=decoding.pace.mean / 2, variance=decoding.pace.mean**2 / 12)
    first = residual + _transfer(replica, demand) + _slot_wait(decoding, demand, servers, most)
    return _curve(decoding, demand, first=first)


def _passes(replica: ReplicaType, demand: StageDemand, servers: int) -> Curve:
    """One batch after the other; each request's units at once, or in chunks."""
    batches = _grid(float(replica.batch_max))
    chunked = demand.pace is Pace.CHUNKS
    units = demand.first_units if chunked else demand.units.mean
    times = demand.units.mean / max(1.0, demand.first_units) if chunked else 1.0
    seconds = demand.steps * _step(replica, prompts=batches, new=units, before=demand.context)
    rates = np.maximum.accumulate(batches / seconds) * _parts(replica)
    best = int(np.argmax(rates >= rates[-1] * 0.98))  # a larger batch would only make requests wait for each other
    capacity = float(rates[best]) / times
    batch = 1.0 + (batches[best] - 1.0) * LEVELS
    pass_s = np.interp(batch, batches, seconds)
    spread = 0.0 if chunked else demand.units.variance / max(1e-300, demand.units.mean**2)
    own = Moments(mean=pass_s, variance=pass_s**2 * spread)
    served = Moments(mean=np.asarray(1.0 / float(rates[best])), variance=np.asarray(spread / float(rates[best]) ** 2))
    first = wait(LEVELS * float(rates[best]) * servers, served, servers) + own
    if not chunked:
        return Curve(capacity_rps=capacity, first=first, pace=NOTHING, whole=first, batch=batch)
    pace = first.times(1.0 / max(1.0, units))
    whole = first.times_size(demand.units * (1.0 / max(1.0, units)))
    return Curve(capacity_rps=capacity, first=first, pace=pace, whole=whole, batch=batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decoding:
    """A batch that writes, by level."""

    capacity_rps: float
    rate: Array
    batch: Array
    pace: Moments


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A prompt: its time alone in a replica, and its part of steps that are full of prompts."""

    alone: Moments
    shared: Moments


def _at_levels(batches: Array, seconds: Array, outputs: float) -> _Decoding:
    """A batch of N takes t(N) a token: N / (outputs * t(N)) requests a second come and go.

    The number of sequences varies as that of customers in a system with a server for everyone: a Poisson law.
    """
    rates = np.maximum.accumulate(batches / (outputs * seconds))
    capacity = float(rates[-1])
    kept = np.concatenate([[True], np.diff(rates) > 0])
    rate = LEVELS * capacity
    batch = np.interp(rate, np.concatenate([[0.0], rates[kept]]), np.concatenate([[0.0], batches[kept]]))
    inside = np.maximum(1.0, batch)
    pace = np.interp(inside, batches, seconds)
    more = np.interp(inside + np.sqrt(batch), batches, seconds)
    spread = Moments(mean=pace, variance=(more - pace) ** 2)  # beyond the last batch nobody is let in
    return _Decoding(capacity_rps=capacity, rate=rate, batch=batch, pace=spread)


def _reading(replica: ReplicaType, demand: StageDemand, *, decode: Array) -> _Reading:
    sizes, weights = demand.units.points()
    chunk = float(replica.build.chunk_tokens)
    batch = np.asarray(decode, dtype=float)[..., None] / _parts(replica)
    context = _context(demand)
    pieces = np.maximum(1.0, np.ceil(sizes / chunk))
    # Later chunks see the earlier ones: on average half of the prompt is there already.
    before = demand.context + (sizes - sizes / pieces) / 2
    step_s = _step(replica, decode=batch, context=context, prompts=1.0, new=sizes / pieces, before=before)
    full = np.maximum(1.0, np.floor(chunk / np.maximum(1.0, sizes)))
    full_s = _step(replica, decode=batch, context=context, prompts=full, new=sizes / pieces, before=before)
    share_s = full_s * pieces / full / _parts(replica)
    return _Reading(alone=_weighed(step_s * pieces, weights), shared=_weighed(share_s, weights))


def _weighed(seconds: Array, weights: Array) -> Moments:
    mean = (seconds * weights).sum(axis=-1)
    return Moments(mean=mean, variance=np.maximum(0.0, (seconds**2 * weights).sum(axis=-1) - mean**2))


def _slot_wait(decoding: _Decoding, demand: StageDemand, servers: int, most: float) -> Moments:
    """The wait for a place in a batch. Rounding may put the load a little above the places it was computed from."""
    stay = decoding.pace.times_size(demand.outputs)
    rate = decoding.rate * servers
    return wait(rate, stay, np.maximum(servers * most, rate * stay.mean / float(LEVELS[-1])))


def _transfer(replica: ReplicaType, demand: StageDemand) -> Moments:
    """A prompt's cache on its way: each rank gets its part over its own port."""
    speeds = replica.performance
    held = request_bytes(replica.form.cache, tokens=round(demand.units.mean), dtype=replica.build.cache_dtype)
    seconds = speeds.network_latency_s + held / (speeds.network_bytes_per_s * speeds.tuning.link)
    spread = demand.units.variance / max(1e-300, demand.units.mean**2)
    return Moments(mean=np.asarray(seconds), variance=np.asarray(seconds**2 * spread))


def _curve(decoding: _Decoding, demand: StageDemand, *, first: Moments) -> Curve:
    whole = first + decoding.pace.times_size(demand.outputs)
    return Curve(capacity_rps=decoding.capacity_rps, first=first, pace=decoding.pace, whole=whole, batch=decoding.batch)


def _parts(replica: ReplicaType) -> int:
    """Micro-batches that are under way at once: each pipeline rank has one, and all of them pass all ranks."""
    return max(1, len(replica.form.layout.pipeline))


def _context(demand: StageDemand) -> float:
    """What a sequence holds in the mean while it is written."""
    return demand.context + demand.units.mean + demand.outputs.mean / 2


def _grid(most: float) -> Array:
    return np.unique(np.concatenate([np.geomspace(1.0, max(1.0, most), _BATCHES).round(3), [max(1.0, most)]]))


def _step(
    replica: ReplicaType,
    *,
    decode: Array | float = 0.0,
    context: Array | float = 0.0,
    prompts: Array | float = 0.0,
    new: Array | float = 0.0,
    before: Array | float = 0.0,
) -> Array:
    """Seconds of a step."""
    step = Step(decode=decode, context=context, prompts=prompts, new=new, before=before)
    return np.asarray(step_times(replica.form, replica.performance, step).total)
